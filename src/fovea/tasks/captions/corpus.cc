#include "fovea/tasks/captions/corpus.h"

#include <algorithm>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea::captions {
namespace {

std::string count_of(int64_t count, std::string_view what) {
  return cat(thousands(count), " ", what, count == 1 ? "" : "s");
}

}  // namespace

CaptionedImages pair_captions(const Inputs& inputs, const std::vector<data::Caption>& captions,
                              const std::string& option) {
  std::vector<std::vector<std::string>> of_image(static_cast<size_t>(inputs.size()));
  int64_t empty = 0, lost = 0;
  std::string lost_id;
  for (const data::Caption& caption : captions) {
    const std::optional<int64_t> image = inputs.find(caption.image);
    if (!image && lost++ == 0) lost_id = caption.image;
    if (!image) continue;
    if (is_empty_line(caption.text)) {
      ++empty;
    } else {
      of_image[static_cast<size_t>(*image)].push_back(caption.text);
    }
  }
  if (lost > 0)
    throw Error(cat(option, ": ", count_of(lost, "caption"), " of images that are not there, first '",
                    lost_id.substr(0, 40), "'; the images are '", inputs.id(0).substr(0, 40), "' to '",
                    inputs.id(inputs.size() - 1).substr(0, 40), "'; expected an image for each caption (--image-ids)"));
  CaptionedImages result;
  for (int64_t i = 0; i < inputs.size(); ++i) {
    if (of_image[static_cast<size_t>(i)].empty()) continue;
    result.images.push_back(i);
    result.texts.push_back(std::move(of_image[static_cast<size_t>(i)]));
  }
  const int64_t without = inputs.size() - std::ssize(result.images);
  if (empty > 0) log::info(cat("[data] left out ", count_of(empty, "empty caption")));
  if (without > 0) log::info(cat("[data] left out ", count_of(without, "image"), " without captions in ", option));
  if (result.images.empty()) throw Error(cat(option, ": has no usable caption; all are empty"));
  return result;
}

CaptionCorpus encode_captions(const Inputs& inputs, const CaptionedImages& captioned, const text::Vocab& vocab,
                              int64_t max_length, const std::string& option) {
  CaptionCorpus corpus;
  int64_t too_long = 0;
  for (size_t i = 0; i < captioned.images.size(); ++i) {
    throw_if_interrupted("encoding captions");
    for (const std::string& text : captioned.texts[i]) {
      const std::vector<int64_t> ids = vocab.encode(text);
      if (ids.empty()) continue;
      if (max_length > 0 && std::ssize(ids) > max_length) {
        ++too_long;
        continue;
      }
      for (const int64_t id : ids) corpus.tokens.push_back(static_cast<int32_t>(id));
      corpus.tokens.push_back(static_cast<int32_t>(vocab.eos()));
      corpus.caption_offsets.push_back(std::ssize(corpus.tokens));
    }
    if (corpus.captions() == corpus.first_caption.back()) continue;
    corpus.images.push_back(captioned.images[i]);
    corpus.first_caption.push_back(corpus.captions());
    corpus.token_offsets.push_back(std::ssize(corpus.tokens));
    corpus.vector_offsets.push_back(corpus.vector_offsets.back() + inputs.length(captioned.images[i]));
  }
  if (too_long > 0)
    log::info(cat("[data] left out ", count_of(too_long, "caption"), " longer than ", max_length, " tokens"));
  if (corpus.size() == 0)
    throw Error(cat(option, ": has no usable caption: all are longer than ", max_length, " tokens (--max-length)"));
  log::info(cat("[data] ", count_of(corpus.captions(), "caption"), " of ", count_of(corpus.size(), "image"), ", ",
                count_of(std::ssize(corpus.tokens), "token")));
  return corpus;
}

std::string fingerprint(const Inputs& inputs, const CaptionCorpus& corpus) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  return checksum(cat(inputs.fingerprint(), checksum(bytes(corpus.images)), checksum(bytes(corpus.tokens)),
                      checksum(bytes(corpus.caption_offsets)), checksum(bytes(corpus.first_caption))));
}

}  // namespace fovea::captions
