#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/models/formats/tensor_index.h"
#include "fovea/models/formats/torch_file.h"
#include "fovea/tasks/language/hugging_face_config.h"
#include "fovea/text/byte_pairs.h"
#include "fovea/text/byte_pairs_json.h"
#include "fovea/text/chat_template.h"
#include "fovea/text/piece_order.h"
#include "fovea/text/sentencepiece_json.h"
#include "loaders/loaders.h"

namespace fovea::fuzz {
namespace {

// The file with a token for each byte, which a small input has no room for.
std::string with_bytes(std::string_view text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) return std::string(text);
  auto& vocabulary = json["model"]["vocab"];
  if (!vocabulary.is_object()) return std::string(text);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_shown = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const int letter = is_shown ? byte : next++;
    std::string name(1, static_cast<char>(letter));
    if (letter >= 0x80) name = {static_cast<char>(0xc0 | (letter >> 6)), static_cast<char>(0x80 | (letter & 0x3f))};
    if (!vocabulary.contains(name)) vocabulary[name] = byte;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

// A tokenizer.json, and behind a NUL byte a text. Tokens give the text back unless characters are composed or blanks
// are added or taken.
void load_byte_pairs(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view text = bytes.substr(std::min(end + 1, bytes.size()));
  const text::BytePairs pairs(text::parse_byte_pairs_json(with_bytes(bytes.substr(0, end)), "tokenizer.json"), "file");
  if (!is_valid_utf8(text)) return;
  std::vector<int32_t> ids;
  pairs.encode(text, true, ids);
  std::string decoded;
  for (const int32_t id : ids) {
    require(id >= 0 && id < pairs.size(), "a token is not in the vocabulary");
    decoded += pairs.surface(id);
  }
  const text::BytePairModel& model = pairs.model();
  const bool keeps_text = !model.composes && !model.adds_blank && model.added.empty() && !model.signs;
  require(!keeps_text || decoded == text, "the tokens give another text back");
  require(pairs.cut(text, text.size()) <= text.size(), "a cut is behind the text");
}

// NLLB's tokenizer.json, and behind a NUL byte a text.
void load_nllb(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string json(bytes.substr(0, end));
  const std::vector<std::string> pieces = text::parse_nllb_pieces(json, "tokenizer.json");
  const text::OrderedModel model = text::with_piece_order(text::parse_nllb_model(json, "tokenizer.json"), pieces,
                                                          "file", text::NewPieces::kPrintNothing);
  const text::Vocab vocab = text::Vocab::from_bytes(model.bytes, "file");
  require(vocab.size() == std::ssize(pieces), "the model has another number of pieces");
  for (const int64_t id : vocab.encode(bytes.substr(std::min(end + 1, bytes.size()))))
    require(id >= 0 && id < vocab.size(), "a piece is not in the vocabulary");
}

void load_tensor_index(std::string_view bytes) {
  for (const auto& [tensor, file] : models::parse_tensor_index(std::string(bytes), "index.json"))
    require(file.find('/') == std::string::npos, "a file is in another folder");
}

// A configuration that was read is written as one that is read as the same.
void load_decoder_config(std::string_view bytes) {
  const language::LanguageConfig config = language::parse_decoder_config(std::string(bytes), "config.json");
  const std::string written = language::print_decoder_config(config, {1, {2, 3}}, "float32");
  const language::LanguageConfig again = language::parse_decoder_config(written, "config.json");
  require(language::print_decoder_config(again, {1, {2, 3}}, "float32") == written,
          "what was written is read as another");
}

// Each tensor lies within its storage, and that within the file.
void load_torch_file(std::string_view bytes) {
  for (const models::TorchTensor& tensor : models::parse_torch_file(bytes, "pytorch_model.bin")) {
    const bool is_within = tensor.storage.data() >= bytes.data() &&
                           tensor.storage.data() + tensor.storage.size() <= bytes.data() + bytes.size();
    require(tensor.storage.empty() || is_within, "a storage is not in the file");
    int64_t last = tensor.offset;
    bool is_empty = false;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      is_empty = is_empty || tensor.shape[i] == 0;
      last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    require(is_empty || last < static_cast<int64_t>(tensor.storage.size()), "a tensor is not in its storage");
  }
}

// A template, and behind a zero byte the content of a message.
void load_chat_template(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string content(bytes.substr(std::min(end + 1, bytes.size())));
  const std::vector<text::ChatMessage> messages = {{"user", content}, {"assistant", "yes"}, {"user", content}};
  const text::ChatTemplate chat(bytes.substr(0, end), "chat_template.jinja");
  require(
      chat.render(messages, {.begin = "<s>", .end = "</s>"}) == chat.render(messages, {.begin = "<s>", .end = "</s>"}),
      "a template writes two texts");
}

}  // namespace fovea::fuzz
