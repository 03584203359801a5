#include "fovea/text/byte_pairs_json.h"

#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/added_tokens_json.h"
#include "fovea/text/json_values.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/tokenizer_json.h"

namespace fovea::text {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The bytes by the characters that stand for them: printable characters of Latin-1 for themselves, the others from
// U+0100 on.
const std::array<int, 0x144>& byte_of_character() {
  static const auto kBytes = [] {
    std::array<int, 0x144> bytes{};
    bytes.fill(-1);
    size_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      bytes.at(is_printable ? static_cast<size_t>(byte) : next++) = byte;
    }
    return bytes;
  }();
  return kBytes;
}

// The bytes for which a token's characters stand; the token itself if it has other characters.
std::string bytes_of(const std::string& token) {
  const auto& known = byte_of_character();
  const auto* text = reinterpret_cast<const uint8_t*>(token.data());
  const auto size = static_cast<int64_t>(token.size());
  std::string bytes;
  for (int64_t at = 0; at < size;) {
    UChar32 c = 0;
    U8_NEXT(text, at, size, c);
    if (c < 0 || static_cast<size_t>(c) >= known.size() || known[static_cast<size_t>(c)] < 0) return token;
    bytes.push_back(static_cast<char>(known[static_cast<size_t>(c)]));
  }
  return bytes;
}

// Reads the file's parts one by one.
class Reader {
 public:
  Reader(const Json& root, const std::string& origin) : root_(root), origin_(origin) {}

  BytePairModel read() {
    const Json& model = json_object(root_, "model", origin_);
    read_model(model);
    if (result_.signs) {
      read_sign_normalizer();
      read_sign_pre_tokenizer();
      read_decoder();
    } else {
      read_normalizer();
      read_pre_tokenizer();
    }
    read_added();
    read_begin();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(std::string_view part, std::string_view got, std::string_view expected) const {
    throw Error(cat(origin_, ": ", part, ": got ", got, "; expected ", expected));
  }
  std::string type_of(const Json& object, const std::string& part) const {
    if (!object.is_object()) refuse(part, shown_json(object), "an object");
    return json_text(object, "type", cat(origin_, ": ", part)).value_or("none");
  }
  bool truth(const Json& object, const char* name, bool usual, const char* part) const {
    return json_truth(object, name, cat(origin_, ": ", part)).value_or(usual);
  }
  // Throws an Error unless the field is missing, null, false, 0 or an empty text.
  void require_idle(const Json& object, const char* name) const {
    const Json* const found = find_json(object, name);
    if (found == nullptr || *found == false || *found == "" || *found == 0) return;
    refuse(cat("model: ", name), shown_json(*found), "none, as byte-level BPE has");
  }

  void read_model(const Json& model) {
    const std::string type = type_of(model, "model");
    // Old files do not name the type; only BPE has merges.
    if (type != "BPE" && (type != "none" || !model.contains("merges")))
      refuse("model", cat("the type '", type, "'"), "BPE, of bytes or of characters with byte fallback");
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) require_idle(model, name);
    if (truth(model, "byte_fallback", false, "model")) {
      result_.signs.emplace();
      require_idle(model, "ignore_merges");
    } else {
      for (const char* name : {"unk_token", "fuse_unk"}) require_idle(model, name);
    }
    result_.keeps_words = truth(model, "ignore_merges", false, "model");
    read_vocabulary(json_object(model, "vocab", cat(origin_, ": model")));
    const Json* const merges = find_json(model, "merges");
    if (merges == nullptr || !merges->is_array()) refuse("model: merges", "none", "a list");
    result_.merges.reserve(merges->size());
    for (const Json& merge : *merges) add_merge(merge);
  }

  void read_vocabulary(const Json& vocabulary) {
    const auto most = static_cast<int64_t>(vocabulary.size()) + kMostUnusedNumbers;
    for (const auto& [token, number] : vocabulary.items()) {
      const auto id = whole_json(number, {0, most}, cat(origin_, ": model: vocab: '", token, "'"));
      if (token.empty()) refuse("model: vocab", "an empty token", "tokens of text");
      set_token(id, token);
      ids_.emplace(token, id);
      result_.tokens[static_cast<size_t>(id)] = result_.signs ? text_of(token, id) : bytes_of(token);
    }
  }

  // The text of a token of characters. Notes the token if it is one character, or a byte.
  std::string text_of(const std::string& token, int64_t id) {
    const auto byte = byte_of_fallback(token);
    if (byte || first_character(token).size == token.size())
      result_.characters.emplace_back(token, static_cast<int32_t>(id));
    if (byte) return {static_cast<char>(*byte)};
    std::string text;
    for (size_t at = 0; at < token.size();) {
      const bool is_sign = std::string_view(token).substr(at).starts_with(kBlankSign);
      text += is_sign ? ' ' : token[at];
      at += is_sign ? kBlankSign.size() : 1;
    }
    return text;
  }

  void set_token(int64_t id, const std::string& token) {
    const auto place = static_cast<size_t>(id);
    if (place >= result_.tokens.size()) result_.tokens.resize(place + 1);
    if (!result_.tokens[place].empty())
      refuse("model: vocab", cat("the number ", id, " twice"), "one token per number");
    result_.tokens[place] = token;
  }

  void add_merge(const Json& merge) {
    const std::string place = cat("model: merges ", result_.merges.size() + 1);
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const size_t blank = text.find(' ');
      if (blank == std::string::npos) refuse(place, shown_json(merge), "two tokens");
      left = text.substr(0, blank), right = text.substr(blank + 1);
    } else {
      refuse(place, shown_json(merge), "two tokens");
    }
    const auto id = [&](const std::string& token) {
      const auto found = ids_.find(token);
      if (found == ids_.end()) refuse(place, cat("the token '", token, "'"), "tokens of the vocabulary");
      return static_cast<int32_t>(found->second);
    };
    result_.merges.push_back({id(left), id(right), id(left + right)});
  }

  void read_normalizer() {
    const Json* const part = find_json(root_, "normalizer");
    if (part == nullptr) return;
    const std::string type = type_of(*part, "normalizer");
    if (type == "NFC") {
      result_.composes = true;
    } else if (type != "Sequence" || !part->contains("normalizers") || !(*part)["normalizers"].empty()) {
      refuse("normalizer", cat("the type '", type, "'"), "NFC or none");
    }
  }

  // The parts of a normalizer or a decoder, which may be a list of them.
  std::vector<Json> parts_of(const char* name, const char* list_name) const {
    const Json* const part = find_json(root_, name);
    if (part == nullptr) return {};
    if (type_of(*part, name) != "Sequence") return {*part};
    const Json* const list = find_json(*part, list_name);
    if (list == nullptr || !list->is_array()) refuse(name, "no list", list_name);
    return list->get<std::vector<Json>>();
  }
  // Whether a part replaces the text `from` by `to`.
  bool replaces(const Json& part, std::string_view from, std::string_view to, const char* name) const {
    const Json* const pattern = find_json(part, "pattern");
    return type_of(part, name) == "Replace" && pattern != nullptr && pattern->is_object() &&
           pattern->value("String", Json()) == from && part.value("content", Json()) == to;
  }

  // U+2581 for blanks, perhaps one before the text.
  void read_sign_normalizer() {
    bool has_signs = false;
    for (const Json& part : parts_of("normalizer", "normalizers")) {
      if (replaces(part, " ", kBlankSign, "normalizer")) {
        has_signs = true;
      } else if (type_of(part, "normalizer") == "Prepend" && part.value("prepend", Json()) == kBlankSign) {
        result_.signs->before = BlankSigns::Before::kEach;
      } else {
        refuse("normalizer", shown_json(part), "Prepend and Replace with U+2581 for blanks");
      }
      result_.signs->is_normalizer = true;
    }
    if (result_.signs->is_normalizer && !has_signs)
      refuse("normalizer", "no Replace", "one that writes U+2581 for blanks");
  }

  void read_sign_pre_tokenizer() {
    BlankSigns& signs = *result_.signs;
    const Json* const part = find_json(root_, "pre_tokenizer");
    const std::string type = part == nullptr ? "none" : type_of(*part, "pre_tokenizer");
    if (signs.is_normalizer) {
      // A split at blanks finds none behind that normalizer.
      const bool is_idle =
          part == nullptr || (type == "Split" && part->value("pattern", Json()) == Json::object({{"String", " "}}));
      if (!is_idle) refuse("pre_tokenizer", cat("the type '", type, "' behind a normalizer"), "none");
      return;
    }
    if (type != "Metaspace") refuse("pre_tokenizer", cat("the type '", type, "'"), "Metaspace, as byte fallback has");
    if (json_text(*part, "replacement", cat(origin_, ": pre_tokenizer")).value_or("") != kBlankSign)
      refuse("pre_tokenizer: replacement", "another sign", "U+2581");
    const bool prepends = truth(*part, "add_prefix_space", true, "pre_tokenizer");
    const std::string scheme =
        json_text(*part, "prepend_scheme", cat(origin_, ": pre_tokenizer")).value_or(prepends ? "always" : "never");
    if (scheme != "first" && scheme != "always" && scheme != "never")
      refuse("pre_tokenizer: prepend_scheme", cat("'", scheme, "'"), "first, always or never");
    signs.before = scheme == "first"    ? BlankSigns::Before::kFirst
                   : scheme == "always" ? BlankSigns::Before::kEach
                                        : BlankSigns::Before::kNothing;
    signs.splits = truth(*part, "split", true, "pre_tokenizer");
  }

  // Whether texts lose the blank at their beginning.
  void read_decoder() {
    for (const Json& part : parts_of("decoder", "decoders")) {
      const std::string type = type_of(part, "decoder");
      if (type == "Strip") {
        result_.drops_blank = part.value("content", Json()) == " " && part.value("start", Json()) == 1;
        if (!result_.drops_blank || part.value("stop", Json(0)) != 0)
          refuse("decoder: Strip", shown_json(part), "one blank at the beginning");
      } else if (type == "Metaspace") {
        const bool prepends = truth(part, "add_prefix_space", true, "decoder");
        result_.drops_blank =
            json_text(part, "prepend_scheme", cat(origin_, ": decoder")).value_or(prepends ? "always" : "never") !=
            "never";
      } else if (type != "ByteFallback" && type != "Fuse" && !replaces(part, kBlankSign, " ", "decoder")) {
        refuse("decoder", cat("the type '", type, "'"), "Replace, ByteFallback, Fuse and Strip");
      }
    }
  }

  void read_pre_tokenizer() {
    const Json& part = json_object(root_, "pre_tokenizer", origin_);
    if (type_of(part, "pre_tokenizer") != "Sequence") {
      read_byte_level(part, true);
      return;
    }
    const Json* const list = find_json(part, "pretokenizers");
    if (list == nullptr || !list->is_array() || list->empty()) refuse("pre_tokenizer", "no list", "pretokenizers");
    for (size_t i = 0; i + 1 < list->size(); ++i) add_split((*list)[i]);
    read_byte_level(list->back(), list->size() == 1);
  }

  void add_split(const Json& split) {
    const std::string type = type_of(split, "pre_tokenizer");
    if (type == "Digits") {
      result_.patterns.emplace_back(truth(split, "individual_digits", false, "pre_tokenizer") ? "\\p{N}" : "\\p{N}+");
      return;
    }
    if (type != "Split") refuse("pre_tokenizer", cat("the type '", type, "'"), "Split, Digits and then ByteLevel");
    const std::string behavior = json_text(split, "behavior", cat(origin_, ": pre_tokenizer")).value_or("none");
    if (behavior != "Isolated" || truth(split, "invert", false, "pre_tokenizer"))
      refuse("pre_tokenizer: Split", cat("the behavior '", behavior, "'"), "Isolated, without invert");
    const Json& pattern = json_object(split, "pattern", cat(origin_, ": pre_tokenizer"));
    const auto text = json_text(pattern, "Regex", cat(origin_, ": pre_tokenizer: pattern"));
    if (!text) refuse("pre_tokenizer: pattern", "no Regex", "a regular expression");
    result_.patterns.push_back(*text);
  }

  void read_byte_level(const Json& part, bool is_alone) {
    const std::string type = type_of(part, "pre_tokenizer");
    if (type != "ByteLevel") refuse("pre_tokenizer", cat("the type '", type, "' at the end"), "ByteLevel");
    if (truth(part, "use_regex", true, "pre_tokenizer")) result_.patterns.emplace_back(kGpt2Pattern);
    result_.adds_blank = truth(part, "add_prefix_space", true, "pre_tokenizer");
    if (result_.adds_blank && !is_alone)
      refuse("pre_tokenizer: ByteLevel: add_prefix_space", "true behind a Split", "false");
  }

  void read_added() {
    const Json* const list = find_json(root_, "added_tokens");
    if (list == nullptr) return;
    if (!list->is_array()) refuse("added_tokens", shown_json(*list), "a list");
    for (const Json& object : *list) {
      const std::string place = cat(origin_, ": added_tokens ", result_.added.size() + 1);
      if (!object.is_object()) throw Error(cat(place, ": got ", shown_json(object), "; expected an object"));
      const auto most = std::ssize(result_.tokens) + kMostUnusedNumbers;
      const AddedToken token = added_token_of(object, json_number(object, "id", {0, most}, place), place);
      const auto own = ids_.find(token.content);
      if (own != ids_.end() && own->second != token.id)
        throw Error(
            cat(place, ": '", token.content, "' has the number ", token.id, ", but the vocabulary says ", own->second));
      if (own == ids_.end()) set_token(token.id, token.content);
      ids_.emplace(token.content, token.id);
      result_.tokens[static_cast<size_t>(token.id)] = token.content;
      result_.added.push_back(token);
    }
  }

  // The post-processor may put a token before each text. ByteLevel there only concerns places in the text.
  void read_begin() {
    const Json* const part = find_json(root_, "post_processor");
    if (part == nullptr) return;
    const std::string type = type_of(*part, "post_processor");
    if (type != "Sequence") return read_processor(*part, type);
    const Json* const list = find_json(*part, "processors");
    if (list == nullptr || !list->is_array()) refuse("post_processor", "no list", "processors");
    for (const Json& one : *list) read_processor(one, type_of(one, "post_processor"));
  }

  void read_processor(const Json& part, const std::string& type) {
    if (type == "ByteLevel") return;
    if (type != "TemplateProcessing")
      refuse("post_processor", cat("the type '", type, "'"), "TemplateProcessing or ByteLevel");
    const Json* const single = find_json(part, "single");
    const auto is_text = [](const Json& item) { return item.is_object() && item.contains("Sequence"); };
    if (single != nullptr && single->is_array() && single->size() == 1 && is_text((*single)[0])) return;
    const bool fits = single != nullptr && single->is_array() && single->size() == 2 && is_text((*single)[1]) &&
                      (*single)[0].is_object() && (*single)[0].contains("SpecialToken");
    if (!fits) refuse("post_processor", "other tokens around a text", "at most one token before it");
    const Json& token = (*single)[0]["SpecialToken"];
    result_.begin_content = token.is_object() && token.contains("id") && token["id"].is_string()
                                ? token["id"].get<std::string>()
                                : std::string();
    if (!ids_.contains(result_.begin_content))
      refuse("post_processor", cat("the token '", result_.begin_content, "'"), "a token of the vocabulary");
  }

  const Json& root_;
  const std::string& origin_;
  BytePairModel result_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace

bool is_byte_pairs_json(const std::string& text, const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  const Json& model = json_object(root, "model", origin);
  return json_text(model, "type", cat(origin, ": model")).value_or(model.contains("merges") ? "BPE" : "none") == "BPE";
}

BytePairModel parse_byte_pairs_json(const std::string& text, const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  return Reader(root, origin).read();
}

std::optional<std::string> token_of_config(const std::string& text, const std::string& name,
                                           const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  const Json* const found = find_json(root, name);
  if (found == nullptr) return std::nullopt;
  if (found->is_object()) return json_text(*found, "content", cat(origin, ": ", name));
  return json_text(root, name, origin);
}

std::optional<bool> add_bos_of_config(const std::string& text, const std::string& origin) {
  return json_truth(parse_json_object(text, origin), "add_bos_token", origin);
}

}  // namespace fovea::text
