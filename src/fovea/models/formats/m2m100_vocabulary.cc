#include "fovea/models/formats/m2m100_vocabulary.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/base/base64.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/protobuf.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/piece_ids.h"
#include "fovea/text/json_values.h"
#include "fovea/text/piece_order.h"
#include "fovea/text/sentencepiece_json.h"
#include "fovea/text/sentencepiece_model.h"

namespace fovea::models {
namespace {

using text::Json;
using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

constexpr const char *kSentencePiece = "sentencepiece.bpe.model", *kTokenizerConfig = "tokenizer_config.json";
constexpr const char *kTokenizer = "tokenizer.json", *kVocab = "vocab.json", *kMask = "<mask>";

// The languages that transformers numbers behind the pieces of vocab.json, in this order; no file of a folder has them.
constexpr std::array<std::string_view, 100> kM2m100 = {
    "af", "am", "ar", "ast", "az", "ba",  "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy", "da", "de",
    "el", "en", "es", "et",  "fa", "ff",  "fi", "fr", "fy", "ga", "gd", "gl", "gu",  "ha", "he", "hi", "hr",
    "ht", "hu", "hy", "id",  "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km",  "kn", "ko", "lb", "lg",
    "ln", "lo", "lt", "lv",  "mg", "mk",  "ml", "mn", "mr", "ms", "my", "ne", "nl",  "no", "ns", "oc", "or",
    "pa", "pl", "ps", "pt",  "ro", "ru",  "sd", "si", "sk", "sl", "so", "sq", "sr",  "ss", "su", "sv", "sw",
    "ta", "th", "tl", "tn",  "tr", "uk",  "ur", "uz", "vi", "wo", "xh", "yi", "yo",  "zh", "zu"};
constexpr std::array<std::string_view, 8> kWmt21 = {"en", "ha", "is", "ja", "cs", "ru", "zh", "de"};
constexpr std::array<std::pair<std::string_view, std::span<const std::string_view>>, 2> kLanguageLists = {
    {{"m2m100", kM2m100}, {"wmt21", kWmt21}}};

std::vector<std::string> pieces_of_vocab(const std::filesystem::path& folder, const Json& config,
                                         const std::string& origin) {
  std::vector<std::string> pieces = read_piece_list((folder / kVocab).string());
  const std::string name = text::json_text(config, "language_codes", origin).value_or("m2m100");
  const auto* const list =
      std::ranges::find(kLanguageLists, name, &std::pair<std::string_view, std::span<const std::string_view>>::first);
  if (list == kLanguageLists.end())
    throw Error(cat(origin, ": language_codes: got '", name, "'; expected m2m100 or wmt21"));
  for (const std::string_view code : list->second) pieces.push_back(text::language_mark(code));
  return pieces;
}

// The class of the tokeniser without the ending of the form that the library `tokenizers` computes.
std::string class_of(const Json& config, const std::filesystem::path& folder, const std::string& origin) {
  const std::string usual = std::filesystem::exists(folder / kVocab) ? "M2M100Tokenizer" : "NllbTokenizer";
  std::string name = text::json_text(config, "tokenizer_class", origin).value_or(usual);
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name != "M2M100Tokenizer" && name != "NllbTokenizer")
    throw Error(cat(origin, ": tokenizer_class: got '", name, "'; expected M2M100Tokenizer or NllbTokenizer"));
  return name;
}

}  // namespace

text::Vocab read_m2m100_vocabulary(const std::filesystem::path& folder, int64_t rows) {
  const std::string path = folder / kTokenizerConfig;
  require_file(path, "vocabulary");
  const Json config = text::parse_json_object(read_text_file(path), path);
  if (text::json_truth(config, "legacy_behaviour", path).value_or(false))
    throw Error(cat(path,
                    ": legacy_behaviour: got true; expected false: the mark of the source's language stands "
                    "before the text, not behind it"));
  const bool is_nllb = class_of(config, folder, path) == "NllbTokenizer";
  const std::string list = folder / (is_nllb ? kTokenizer : kVocab), model = folder / kSentencePiece;
  const bool has_model = std::filesystem::exists(model);
  require_file(list, "vocabulary");
  if (!is_nllb) require_file(model, "vocabulary");
  const std::string json = is_nllb ? read_file(list) : "";
  std::vector<std::string> pieces =
      is_nllb ? text::parse_nllb_pieces(json, list) : pieces_of_vocab(folder, config, path);
  if (std::ssize(pieces) > rows)
    throw Error(cat((folder / "config.json").string(), ": vocab_size: got ", rows, ", but the tokeniser has ",
                    pieces.size(), " tokens; expected at least as many rows"));
  for (int64_t extra = 0; std::ssize(pieces) < rows; ++extra) pieces.push_back(cat("<extra", extra, ">"));
  const std::string origin = has_model ? model : list;
  const std::string bytes = has_model ? text::Vocab::load(model).bytes() : text::parse_nllb_model(json, list);
  const text::OrderedModel ordered =
      text::with_piece_order(bytes, pieces, cat("'", origin, "'"), text::NewPieces::kPrintNothing);
  if (ordered.dropped > 0)
    log::warn(cat("'", origin, "': ", thousands(ordered.dropped),
                  " pieces have no number; text with them is split into others"));
  return text::Vocab::from_bytes(ordered.bytes, origin);
}

namespace {

// The pieces of a vocabulary by their part in a tokeniser's files.
struct PieceParts {
  std::vector<std::string> own;    // before the first mark
  std::vector<std::string> codes;  // of the marks
};

PieceParts parts_of(const text::Vocab& vocab) {
  PieceParts parts;
  for (int64_t id = 0; id < vocab.size(); ++id) {
    const std::string piece = vocab.piece(id);
    if (text::is_language_mark(piece)) {
      parts.codes.push_back(text::code_of_mark(piece));
    } else if (parts.codes.empty()) {
      parts.own.push_back(piece);
    }
    const bool is_behind = std::ssize(parts.own) + std::ssize(parts.codes) <= id;
    if (is_behind && !vocab.surface(id).empty())
      throw Error(cat("--to huggingface: the piece '", piece,
                      "' stands behind the marks of languages; expected the marks behind the pieces of text"));
  }
  return parts;
}

// The merges that give each piece of text, those of the first pieces first, as transformers finds them in such a model
// if the pieces are in the order of falling scores.
std::vector<std::pair<std::string, std::string>> merges_of(const std::vector<std::string>& pieces) {
  std::map<std::string_view, size_t> numbers;
  for (size_t id = 0; id < pieces.size(); ++id) numbers.emplace(pieces[id], id);
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& piece : pieces) {
    std::vector<std::tuple<size_t, size_t, size_t, size_t>> found;  // sizes and numbers of both parts
    for (size_t size = first_character(piece).size; size < piece.size();
         size += first_character(std::string_view(piece).substr(size)).size) {
      const auto left = numbers.find(std::string_view(piece).substr(0, size));
      const auto right = numbers.find(std::string_view(piece).substr(size));
      if (left != numbers.end() && right != numbers.end())
        found.emplace_back(piece.size() - size, size, left->second, right->second);
    }
    std::ranges::sort(found);
    for (const auto& [of_right, of_left, left, right] : found) merges.emplace_back(pieces[left], pieces[right]);
  }
  return merges;
}

// The scores of a model's pieces.
std::map<std::string_view, float> scores_of(std::string_view model) {
  std::map<std::string_view, float> scores;
  all_protobuf_fields(model, [&](const ProtobufField& field) {
    if (field.number != text::proto::kPieces || !field.bytes) return true;
    std::string_view piece;
    float score = 0;
    all_protobuf_fields(*field.bytes, [&](const ProtobufField& own) {
      if (own.number == text::proto::kPieceText && own.bytes) piece = *own.bytes;
      if (own.number == text::proto::kPieceScore && own.real) score = *own.real;
      return true;
    });
    scores.emplace(piece, score);
    return true;
  });
  return scores;
}

// The compiled rules of a model's normaliser; empty if it has none.
std::string charsmap_of(std::string_view model) {
  std::string charsmap;
  all_protobuf_fields(model, [&](const ProtobufField& field) {
    if (field.number != text::proto::kNormalizerSpec || !field.bytes) return true;
    return all_protobuf_fields(*field.bytes, [&](const ProtobufField& own) {
      if (own.number == text::proto::kCharsmap && own.bytes) charsmap = *own.bytes;
      return true;
    });
  });
  return charsmap;
}

// NLLB's tokenizer.json.
std::string tokenizer_json(const text::Vocab& vocab, const PieceParts& parts) {
  WrittenJson pieces = WrittenJson::object(), merges = WrittenJson::array(), added = WrittenJson::array();
  std::vector<std::string> texts;
  const auto add = [&](int64_t id, const std::string& content) {
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", content == kMask},
                     {"rstrip", false},
                     {"normalized", content == kMask},
                     {"special", true}});
  };
  for (int64_t id = 0; id < vocab.size(); ++id) {
    const std::string piece = vocab.piece(id);
    if (id < std::ssize(parts.own)) pieces[piece] = id;
    const bool is_text = id != vocab.unk() && !vocab.surface(id).empty();
    if (is_text) texts.push_back(piece);
    if (!is_text && !piece.starts_with("<extra"))
      add(id, text::is_language_mark(piece) ? text::code_of_mark(piece) : piece);
  }
  std::ranges::stable_sort(texts, std::greater(), [scores = scores_of(vocab.bytes())](const std::string& piece) {
    const auto found = scores.find(piece);
    return found == scores.end() ? 0 : found->second;
  });
  for (const auto& [left, right] : merges_of(texts)) merges.push_back({left, right});
  const WrittenJson metaspace = {
      {"type", "Metaspace"}, {"replacement", text::kBlankSign}, {"prepend_scheme", "always"}, {"split", true}};
  WrittenJson normalizers = WrittenJson::array();
  if (const std::string charsmap = charsmap_of(vocab.bytes()); !charsmap.empty())
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(charsmap)}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  const WrittenJson root = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", added},
                            {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
                            {"pre_tokenizer", metaspace},
                            {"post_processor", nullptr},
                            {"decoder", metaspace},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", vocab.piece(vocab.unk())},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", true},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", pieces},
                              {"merges", merges}}}};
  return root.dump(1, ' ', false, WrittenJson::error_handler_t::replace) + "\n";
}

}  // namespace

void write_m2m100_vocabulary(const text::Vocab& vocab, const std::filesystem::path& folder) {
  const PieceParts parts = parts_of(vocab);
  const auto* const list = std::ranges::find_if(
      kLanguageLists, [&](const auto& pair) { return std::ranges::equal(pair.second, parts.codes); });
  WrittenJson config = {{"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},
                        {"pad_token", "<pad>"}, {"sep_token", "</s>"}, {"model_max_length", 1024}};
  write_file(folder / kSentencePiece, vocab.bytes());
  if (list != kLanguageLists.end()) {
    WrittenJson pieces = WrittenJson::object();
    for (size_t id = 0; id < parts.own.size(); ++id) pieces[parts.own[id]] = id;
    write_file(folder / kVocab, pieces.dump(2, ' ', false, WrittenJson::error_handler_t::replace) + "\n");
    config["tokenizer_class"] = "M2M100Tokenizer";
    config["language_codes"] = list->first;
  } else {
    if (!std::ranges::all_of(parts.codes, text::is_nllb_code))
      throw Error(cat("--to huggingface: the languages are ", join(parts.codes, ", "),
                      "; expected those of M2M100, or codes such as eng_Latn"));
    write_file(folder / kTokenizer, tokenizer_json(vocab, parts));
    config["tokenizer_class"] = "NllbTokenizer";
    config["mask_token"] = kMask;
    config["legacy_behaviour"] = false;
    config["additional_special_tokens"] = parts.codes;
  }
  write_file(folder / kTokenizerConfig, config.dump(2) + "\n");
}

}  // namespace fovea::models
