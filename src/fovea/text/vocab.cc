#include "fovea/text/vocab.h"

#include <sentencepiece_processor.h>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_check.h"
#include "fovea/text/sentencepiece_log.h"

namespace fovea::text {
namespace {

// False for a damaged model. The library throws at a piece that begins with a zero byte.
bool load_into(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  if (!has_sound_charsmaps(model) || !has_sound_user_pieces(model)) return false;
  try {
    return processor.LoadFromSerializedProto(absl::string_view(model.data(), model.size())).ok();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

struct Vocab::Model {
  sentencepiece::SentencePieceProcessor processor;
  std::string bytes;
};

Vocab::Vocab() : model_(std::make_unique<Model>()) {}
Vocab::~Vocab() = default;
Vocab::Vocab(Vocab&&) noexcept = default;
Vocab& Vocab::operator=(Vocab&&) noexcept = default;

Vocab Vocab::load(const std::string& path) {
  require_file(path, "vocabulary");
  return from_bytes(read_file(path), path);
}

Vocab Vocab::from_bytes(const std::string& bytes, const std::string& name) {
  silence_sentencepiece();
  const auto refuse = [&](std::string_view why) -> void {
    throw Error(cat("vocabulary: '", name, "' is not a SentencePiece model (", why,
                    "); expected a file that `fovea vocab` or spm_train wrote"));
  };
  if (bytes.empty()) refuse("it is empty");
  // A serialised model starts with its list of pieces: field 1, length-delimited. Other files rarely get past this, and
  // the library's parser is spared them.
  if (bytes[0] != '\x0a') refuse("its first byte is not a model's");
  Vocab vocab;
  vocab.model_->bytes = bytes;
  auto& processor = vocab.model_->processor;
  if (!load_into(processor, bytes)) refuse("damaged or cut short");
  if (processor.GetPieceSize() <= 0) refuse("it has no pieces");
  if (processor.eos_id() < 0)
    throw Error(cat("vocabulary: '", name, "' has no </s>; got a model trained without one; train it with an eos_id"));
  return vocab;
}

int64_t Vocab::size() const { return model_->processor.GetPieceSize(); }
int64_t Vocab::eos() const { return model_->processor.eos_id(); }
int64_t Vocab::unk() const { return model_->processor.unk_id(); }
const std::string& Vocab::bytes() const { return model_->bytes; }

std::vector<int64_t> Vocab::encode(std::string_view line) const {
  std::vector<int> ids;
  const auto status = model_->processor.Encode(absl::string_view(line.data(), line.size()), &ids);
  if (!status.ok()) throw Error(cat("vocabulary: a line cannot be split into pieces: ", status.ToString()));
  return {ids.begin(), ids.end()};
}

std::vector<std::string> Vocab::pieces(std::string_view line) const {
  std::vector<std::string> pieces;
  const auto status = model_->processor.Encode(absl::string_view(line.data(), line.size()), &pieces);
  if (!status.ok()) throw Error(cat("vocabulary: a line cannot be split into pieces: ", status.ToString()));
  return pieces;
}

std::string Vocab::decode(const std::vector<int64_t>& ids) const {
  std::vector<int> known;
  known.reserve(ids.size());
  for (const int64_t id : ids) {
    if (id < 0 || id >= size()) throw Error(cat("vocabulary: got piece ", id, "; expected 0 to ", size() - 1));
    known.push_back(static_cast<int>(id));
  }
  std::string text;
  const auto status = model_->processor.Decode(known, &text);
  if (!status.ok()) throw Error(cat("vocabulary: pieces cannot be joined into text: ", status.ToString()));
  return text;
}

std::string Vocab::piece(int64_t id) const {
  if (id < 0 || id >= size()) throw Error(cat("vocabulary: got piece ", id, "; expected 0 to ", size() - 1));
  return model_->processor.IdToPiece(static_cast<int>(id));
}

}  // namespace fovea::text
