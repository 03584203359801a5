#include "fovea/text/sentencepiece_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "fovea/base/base64.h"
#include "fovea/base/error.h"
#include "fovea/base/protobuf.h"
#include "fovea/base/strings.h"
#include "fovea/text/json_values.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/wordpiece.h"

namespace fovea::text {
namespace {

constexpr size_t kLongestPiece = 256;  // bytes; SentencePiece's pieces have 16 characters at most unless it is told so

const Json& vocabulary_of(const Json& root, const std::string& origin) {
  return json_object(json_object(root, "model", origin), "vocab", cat(origin, ": model"));
}

// Shows each added token's number and text.
template <class Show>
void each_added(const Json& root, const std::string& origin, const Show& show) {
  const Json* const added = find_json(root, "added_tokens");
  if (added == nullptr) return;
  const std::string place = cat(origin, ": added_tokens");
  if (!added->is_array()) throw Error(cat(place, ": got ", shown_json(*added), "; expected a list"));
  const JsonRange numbers = {0, static_cast<int64_t>(vocabulary_of(root, origin).size()) + kMostUnusedNumbers};
  for (const Json& token : *added) {
    if (!token.is_object()) throw Error(cat(place, ": got ", shown_json(token), "; expected an object"));
    const auto content = json_text(token, "content", place);
    if (!content) throw Error(cat(place, ": content is missing; expected the token's text"));
    show(json_number(token, "id", numbers, place), *content);
  }
}

// The parts of the file from which a SentencePiece model follows.
class ModelReader {
 public:
  ModelReader(const Json& root, const std::string& origin) : root_(root), origin_(origin) {}

  std::string read() {
    const Json& model = json_object(root_, "model", origin_);
    require_kind(model);
    require_pre_tokenizer();
    read_pieces(model);
    read_merges(model);
    require_all_merges();
    return print(charsmap());
  }

 private:
  [[noreturn]] void refuse(std::string_view part, std::string_view got, std::string_view expected) const {
    throw Error(cat(origin_, ": ", part, ": got ", got, "; expected ", expected));
  }

  // A field that must be as in NLLB's tokeniser.
  struct Truth {
    const char* name;
    bool expected;
    bool if_missing;
  };
  void require_truth(const Json& object, const char* part, const Truth& truth) const {
    const std::string place = cat(origin_, ": ", part);
    if (json_truth(object, truth.name, place).value_or(truth.if_missing) == truth.expected) return;
    const std::string_view got = truth.expected ? "false" : "true", expected = truth.expected ? "true" : "false";
    throw Error(cat(place, ": ", truth.name, ": got ", got, "; expected ", expected, ", as NLLB's tokeniser has"));
  }

  void require_kind(const Json& model) const {
    const std::string type = json_text(model, "type", cat(origin_, ": model")).value_or("BPE");
    if (type != "BPE") refuse("model", cat("the type '", one_line(type), "'"), "BPE, as NLLB's tokeniser has");
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* const found = find_json(model, name);
      if (found != nullptr && *found != "" && *found != 0) refuse(cat("model: ", name), shown_json(*found), "none");
    }
    require_truth(model, "model", {.name = "byte_fallback", .expected = false, .if_missing = false});
    require_truth(model, "model", {.name = "ignore_merges", .expected = false, .if_missing = false});
    require_truth(model, "model", {.name = "fuse_unk", .expected = true, .if_missing = false});
  }

  void require_pre_tokenizer() const {
    const Json& object = json_object(root_, "pre_tokenizer", origin_);
    const std::string place = cat(origin_, ": pre_tokenizer");
    const std::string type = json_text(object, "type", place).value_or("none");
    if (type != "Metaspace")
      refuse("pre_tokenizer", cat("the type '", one_line(type), "'"), "Metaspace, as NLLB's tokeniser has");
    const std::string sign = json_text(object, "replacement", place).value_or(std::string(kBlankSign));
    if (sign != kBlankSign) refuse("pre_tokenizer: replacement", cat("'", one_line(sign), "'"), "U+2581");
    const std::string scheme = json_text(object, "prepend_scheme", place).value_or("always");
    if (scheme != "always") refuse("pre_tokenizer: prepend_scheme", cat("'", one_line(scheme), "'"), "always");
    require_truth(object, "pre_tokenizer", {.name = "add_prefix_space", .expected = true, .if_missing = true});
    require_truth(object, "pre_tokenizer", {.name = "split", .expected = true, .if_missing = true});
  }

  // The pieces of text: the model's tokens that are not added tokens too.
  void read_pieces(const Json& model) {
    const auto unknown = json_text(model, "unk_token", cat(origin_, ": model"));
    if (!unknown) refuse("model: unk_token", "none", "the token for unknown text");
    unknown_ = *unknown;
    std::unordered_set<std::string> added = {unknown_};
    each_added(root_, origin_, [&](int64_t, const std::string& content) { added.insert(content); });
    const Json& vocabulary = vocabulary_of(root_, origin_);
    if (!vocabulary.contains(unknown_))
      refuse("model: unk_token", cat("'", one_line(unknown_), "'"), "a token of vocab");
    for (const auto& [piece, number] : vocabulary.items()) {
      if (added.contains(piece)) continue;
      const std::string shown = piece.size() > 40 ? cat(piece.substr(0, 40), "...") : piece;
      if (piece.empty() || piece.size() > kLongestPiece)
        refuse("model: vocab", cat("a token of ", piece.size(), " bytes"), cat("tokens of 1 to ", kLongestPiece));
      if (piece.find(kBlankSign, 1) != std::string::npos)
        refuse("model: vocab", cat("the token '", one_line(shown), "'"), "U+2581 at the beginning of tokens alone");
      scores_.emplace(piece, std::nullopt);
    }
  }

  // Joined by the merge: the pieces in the order of their merges, which is that of falling scores.
  void read_merges(const Json& model) {
    const Json* const merges = find_json(model, "merges");
    if (merges == nullptr || !merges->is_array()) refuse("model: merges", "none", "a list");
    std::string last;
    for (const Json& merge : *merges) {
      const auto [left, right] = pair_of(merge);
      const std::string result = left + right;
      const auto found = scores_.find(result);
      if (found == scores_.end() || !scores_.contains(left) || !scores_.contains(right))
        refuse("model: merges", shown_json(merge), "two tokens of text that give a third");
      if (result != last) {
        if (found->second)
          refuse("model: merges", cat("two places of merges that give '", one_line(result), "'"),
                 "one, as in a SentencePiece model");
        found->second = -joined_++;
        last = result;
        pairs_of_result_.clear();
      }
      if (!pairs_of_result_.insert(left).second) refuse("model: merges", cat(shown_json(merge), " twice"), "each once");
      ++merges_;
    }
  }

  // "a b", or ["a", "b"] in newer files.
  std::pair<std::string, std::string> pair_of(const Json& merge) const {
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const size_t blank = text.find(' ');
      if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
        return {text.substr(0, blank), text.substr(blank + 1)};
    }
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    refuse("model: merges", shown_json(merge), "two tokens");
  }

  // SentencePiece joins any two pieces that give a third. The merges must therefore be all such pairs.
  void require_all_merges() const {
    int64_t pairs = 0;
    for (const auto& [piece, score] : scores_) {
      const std::string_view text = piece;
      for (size_t size = first_character(text).size; size < text.size();
           size += first_character(text.substr(size)).size)
        pairs += is_piece(text.substr(0, size)) && is_piece(text.substr(size)) ? 1 : 0;
    }
    if (pairs != merges_)
      refuse("model: merges", cat(thousands(merges_), " merges"),
             cat(thousands(pairs), ", all pairs of tokens that give a third, as in a SentencePiece model"));
  }
  bool is_piece(std::string_view text) const { return scores_.find(text) != scores_.end(); }

  // The compiled rules of the normaliser; empty if there are none. Runs of blanks are always one.
  std::string charsmap() const {
    const Json& object = json_object(root_, "normalizer", origin_);
    const Json* parts = find_json(object, "normalizers");
    const Json alone = Json::array({object});
    if (parts == nullptr) parts = &alone;
    if (!parts->is_array()) refuse("normalizer: normalizers", shown_json(*parts), "a list");
    std::string rules;
    bool joins_blanks = false;
    for (const Json& part : *parts) {
      const std::string place = cat(origin_, ": normalizer");
      if (!part.is_object()) refuse("normalizer", shown_json(part), "an object");
      const std::string type = json_text(part, "type", place).value_or("none");
      if (type == "Precompiled") {
        const auto bytes = from_base64(json_text(part, "precompiled_charsmap", place).value_or(""));
        if (!bytes || !rules.empty())
          refuse("normalizer: precompiled_charsmap", "another text", "bytes in base64, once");
        rules = *bytes;
      } else if (type == "Replace" && joins_runs(part)) {
        joins_blanks = true;
      } else if (type != "Strip") {
        refuse("normalizer", cat("the type '", one_line(type), "'"),
               "Precompiled, Strip and Replace of several blanks by one, as NLLB's tokeniser has");
      }
    }
    if (!joins_blanks) refuse("normalizer", "none that joins blanks", "Replace of several blanks by one");
    return rules;
  }
  static bool joins_runs(const Json& replace) {
    const Json* const pattern = find_json(replace, "pattern");
    const Json* const content = find_json(replace, "content");
    return pattern != nullptr && pattern->is_object() && pattern->contains("Regex") && (*pattern)["Regex"] == " {2,}" &&
           content != nullptr && (*content == " " || *content == std::string(kBlankSign));
  }

  std::string print(const std::string& charsmap) const {
    std::string bytes;
    const auto put = [&](std::string_view text, double score, uint64_t kind) {
      std::string piece;
      put_protobuf_bytes(piece, proto::kPieceText, text);
      put_protobuf_float(piece, proto::kPieceScore, static_cast<float>(score));
      put_protobuf_number(piece, proto::kPieceKind, static_cast<int64_t>(kind));
      put_protobuf_bytes(bytes, proto::kPieces, piece);
    };
    put(unknown_, 0, proto::kUnknownPiece);
    for (const char* const control : {"<s>", "</s>"})
      if (!is_piece(control)) put(control, 0, proto::kControlPiece);
    // Pieces that no merge gives are characters, or are never made; their scores tell nothing.
    for (const auto& [piece, score] : scores_) put(piece, score.value_or(-joined_), proto::kNormalPiece);
    std::string trainer, normalizer;
    put_protobuf_number(trainer, proto::kModelType, static_cast<int64_t>(VocabType::kBpe));
    put_protobuf_bytes(bytes, proto::kTrainerSpec, trainer);
    if (!charsmap.empty()) put_protobuf_bytes(normalizer, proto::kCharsmap, charsmap);
    for (const uint64_t field : {proto::kDummyPrefix, proto::kRemoveBlanks, proto::kEscapeBlanks})
      put_protobuf_number(normalizer, field, 1);
    put_protobuf_bytes(bytes, proto::kNormalizerSpec, normalizer);
    return bytes;
  }

  const Json& root_;
  std::string origin_, unknown_;
  std::map<std::string, std::optional<int64_t>, std::less<>> scores_;  // of the pieces of text
  std::set<std::string> pairs_of_result_;                              // the left parts of its merges
  int64_t joined_ = 0, merges_ = 0;                                    // pieces that merges give; all merges
};

}  // namespace

bool is_nllb_code(std::string_view text) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return text.size() == 8 && text[3] == '_' && text[4] >= 'A' && text[4] <= 'Z' &&
         std::ranges::all_of(text.substr(0, 3), is_lower) && std::ranges::all_of(text.substr(5), is_lower);
}

std::vector<std::string> parse_nllb_pieces(const std::string& json, const std::string& origin) {
  const Json root = parse_json_object(json, origin);
  const Json& vocabulary = vocabulary_of(root, origin);
  const JsonRange numbers = {0, static_cast<int64_t>(vocabulary.size()) + kMostUnusedNumbers};
  std::map<int64_t, std::string> pieces;
  const auto add = [&](int64_t id, const std::string& piece) {
    const auto [place, is_new] = pieces.emplace(id, piece);
    if (!is_new && place->second != piece)
      throw Error(cat(origin, ": the tokens '", one_line(place->second), "' and '", one_line(piece),
                      "' both have the number ", id));
  };
  for (const auto& [piece, number] : vocabulary.items())
    add(whole_json(number, numbers, cat(origin, ": model: vocab: '", one_line(piece), "'")), piece);
  each_added(root, origin, add);
  std::vector<std::string> list;
  for (auto& [id, piece] : pieces) {
    if (id != std::ssize(list)) throw Error(cat(origin, ": the number ", list.size(), " belongs to no token"));
    list.push_back(is_nllb_code(piece) ? language_mark(piece) : std::move(piece));
  }
  return list;
}

std::string parse_nllb_model(const std::string& json, const std::string& origin) {
  const Json root = parse_json_object(json, origin);
  return ModelReader(root, origin).read();
}

}  // namespace fovea::text
