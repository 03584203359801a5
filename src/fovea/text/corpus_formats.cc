#include "fovea/text/corpus_formats.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_readers.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kAuto = "auto";

// The last stands for names without a known ending.
const std::vector<CorpusFormat>& formats() {
  using In = CorpusInput;
  using Options = CorpusOptions;
  static const std::vector<CorpusFormat> kFormats = {
      {.name = "po",
       .extensions = {"po", "pot"},
       .in_words = {},
       .shape = InputShape::kFile,
       .kind = Kind::kInterface,
       .read = [](const In& in, const Options&) { return read_po(in.path); }},
      {.name = "tsv",
       .extensions = {"tsv", "tab"},
       .in_words = {},
       .shape = InputShape::kFile,
       .kind = Kind::kProse,
       .read = [](const In& in, const Options& o) { return read_tsv(in.path, o.source_column, o.target_column); }},
      {.name = "tmx",
       .extensions = {"tmx"},
       .in_words = {},
       .shape = InputShape::kFile,
       .kind = Kind::kProse,
       .read =
           [](const In& in, const Options& o) {
             return read_tmx(in.path, {o.source(), o.target()});
           }},
      {.name = "xliff",
       .extensions = {"xlf", "xliff"},
       .in_words = {},
       .shape = InputShape::kFile,
       .kind = Kind::kInterface,
       .read = [](const In& in, const Options&) { return read_xliff(in.path); }},
      {.name = "aligned",
       .extensions = {},
       .in_words = "two aligned files",
       .shape = InputShape::kTwoFiles,
       .kind = Kind::kProse,
       .read = [](const In& in, const Options&) { return read_aligned(in.path, in.second); }},
  };
  return kFormats;
}

template <class Fits>
const CorpusFormat* find_format(const Fits& fits) {
  return &*std::ranges::find_if(formats(), fits);
}

const CorpusFormat* format_of(const std::string& path, const CorpusOptions& options) {
  if (options.format != kAuto)
    return find_format([&](const CorpusFormat& format) { return format.name == options.format; });
  const std::string extension = without_packed_ending(path).extension();
  if (extension == ".mo" || extension == ".gmo")
    throw UsageError(cat("corpus: '", path, "' is a compiled catalogue; expected its text, which `msgunfmt ", path,
                         " -o FILE.po` writes"));
  const auto has_it = [&](const CorpusFormat& format) {
    return std::ranges::any_of(format.extensions, [&](std::string_view known) { return extension == cat(".", known); });
  };
  return std::ranges::any_of(formats(), has_it) ? find_format(has_it) : &formats().back();
}

}  // namespace

std::string_view corpus_format_choices() {
  static const std::string kChoices = [] {
    std::string names(kAuto);
    for (const CorpusFormat& format : formats()) names += cat("|", format.name);
    return names;
  }();
  return kChoices;
}

std::string corpus_inputs_in_words() {
  std::vector<std::string> words;
  for (const CorpusFormat& format : formats()) {
    for (const std::string_view extension : format.extensions) words.push_back(cat(".", extension));
    if (!format.in_words.empty()) words.emplace_back(format.in_words);
  }
  const std::string last = words.back();
  words.pop_back();
  return cat(join(words, ", "), " or ", last);
}

std::vector<CorpusInput> list_corpus_inputs(const CorpusOptions& options) {
  std::vector<CorpusInput> inputs;
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    const std::string& path = options.inputs[i];
    CorpusInput input{.format = format_of(path, options), .path = path, .second = {}};
    require_file(path, "corpus");
    if (input.format->shape == InputShape::kTwoFiles) {
      if (++i == options.inputs.size())
        throw UsageError(
            cat("corpus: got '", path, "' alone; expected a second, aligned file after it with the translations"));
      input.second = options.inputs[i];
      require_file(input.second, "corpus");
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

fs::path without_packed_ending(fs::path path) {
  for (const char* packed : {".gz", ".xz", ".bz2", ".zst"})
    if (path.extension() == packed) path.replace_extension();
  return path;
}

}  // namespace fovea::text
