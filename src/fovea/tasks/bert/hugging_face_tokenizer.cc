#include "fovea/tasks/bert/hugging_face_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/added_tokens_json.h"
#include "fovea/text/json_values.h"
#include "fovea/text/tokenizer_json.h"

namespace fovea::bert {
namespace {

using text::AddedToken;
using text::Json;
using text::WordPieceModel;

constexpr const char *kTokenizerJson = "tokenizer.json", *kTokenizerConfig = "tokenizer_config.json",
                     *kModelConfig = "config.json", *kTokensMap = "special_tokens_map.json",
                     *kAddedTokens = "added_tokens.json";

// A JSON file that may be missing, and is an empty object then.
struct FolderFile {
  Json object = Json::object();
  std::string path;
};

FolderFile read_if_there(const std::filesystem::path& folder, const char* name) {
  FolderFile file{.path = folder / name};
  if (std::filesystem::exists(folder / name))
    file.object = text::parse_json_object(read_text_file(file.path), file.path);
  return file;
}

// A special token is a text or an object with its text.
std::optional<std::string> token_text(const Json& value, const std::string& place) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) throw Error(cat(place, ": got ", text::shown_json(value), "; expected a token"));
  return text::json_text(value, "content", place);
}

// Reads the files beside the pieces into the model.
class TokenizerSettings {
 public:
  TokenizerSettings(const std::filesystem::path& folder, bool has_tokenizer_json)
      : config_(read_if_there(folder, kTokenizerConfig)),
        map_(read_if_there(folder, kTokensMap)),
        added_(read_if_there(folder, kAddedTokens)),
        has_tokenizer_json_(has_tokenizer_json) {
    class_ = class_of(config_);
    const FolderFile model = read_if_there(folder, kModelConfig);
    const std::string named = class_of(model);
    if (!has_tokenizer_json_) {
      require_known_class(class_, config_.path);
      require_known_class(named, model.path);
    }
  }

  void apply(WordPieceModel& model) const {
    if (!describes_itself()) {
      apply_options(model.options);
      apply_rules(model.rules);
    }
    if (!has_tokenizer_json_) add_listed_tokens(model);
    if (!describes_itself()) add_special_tokens(model);
  }

 private:
  // A tokeniser of this class is made from tokenizer.json alone; BERT's own classes take what tokenizer_config.json
  // says.
  bool describes_itself() const {
    return has_tokenizer_json_ && (class_ == "TokenizersBackend" || class_ == "PreTrainedTokenizer");
  }
  // The tokenizer's class without "Fast" at its end; empty if the file names none.
  static std::string class_of(const FolderFile& file) {
    std::string name = text::json_text(file.object, "tokenizer_class", file.path).value_or("");
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    return name;
  }
  static void require_known_class(const std::string& name, const std::string& origin) {
    static constexpr std::array<std::string_view, 7> kKnown = {"",
                                                               "BertTokenizer",
                                                               "PreTrainedTokenizer",
                                                               "TokenizersBackend",
                                                               "DistilBertTokenizer",
                                                               "ElectraTokenizer",
                                                               "MobileBertTokenizer"};
    if (std::ranges::find(kKnown, name) == kKnown.end())
      throw Error(cat(origin, ": tokenizer_class: got '", name,
                      "', which cuts text into other words than BERT's; expected BertTokenizer"));
  }

  void apply_options(text::WordPieceOptions& options) const {
    const text::WordPieceOptions before = options;
    const Json& object = config_.object;
    const std::optional<bool> lowercase = text::json_truth(object, "do_lower_case", config_.path);
    options.lowercase = lowercase.value_or(options.lowercase);
    if (object.contains("strip_accents") || lowercase)
      options.strip_accents = text::json_truth(object, "strip_accents", config_.path).value_or(options.lowercase);
    options.split_chinese =
        text::json_truth(object, "tokenize_chinese_chars", config_.path).value_or(options.split_chinese);
    if (has_tokenizer_json_ && options != before)
      log::warn(cat("'", config_.path, "' says otherwise than ", kTokenizerJson,
                    " how case, accents or Chinese characters are treated; as in transformers, it is followed"));
  }

  std::optional<std::string> named_token(const std::string& name) const {
    for (const FolderFile* file : {&config_, &map_}) {
      const Json* const value = text::find_json(file->object, name);
      if (value != nullptr) return token_text(*value, cat(file->path, ": ", name));
    }
    return std::nullopt;
  }

  void apply_rules(text::WordPieceRules& rules) const {
    for (const auto& [name, piece] : {std::pair("unk_token", &rules.unknown), std::pair("cls_token", &rules.begin),
                                      std::pair("sep_token", &rules.end)})
      *piece = named_token(name).value_or(*piece);
  }

  // Adds tokens that transformers 4 and older list beside vocab.txt: added_tokens_decoder, or added_tokens.json.
  void add_listed_tokens(WordPieceModel& model) const {
    if (text::find_json(config_.object, "added_tokens_decoder") != nullptr) {
      const std::string origin = cat(config_.path, ": added_tokens_decoder");
      for (const auto& [number, token] :
           text::json_object(config_.object, "added_tokens_decoder", config_.path).items()) {
        int64_t id = -1;
        const char* const end = number.data() + number.size();
        const auto [read, failed] = std::from_chars(number.data(), end, id);
        const std::string place = cat(origin, ": '", number, "'");
        if (failed != std::errc() || read != end || id < 0 || id > text::kTokenNumbers.most)
          throw Error(cat(place, ": expected a token's number from 0 to ", text::kTokenNumbers.most));
        if (!token.is_object()) throw Error(cat(place, ": got ", text::shown_json(token), "; expected an object"));
        model.added.push_back(text::added_token_of(token, id, place));
      }
      return;
    }
    const std::vector<std::string> special = special_tokens(model.rules);
    for (const auto& [content, number] : added_.object.items()) {
      const int64_t id = text::whole_json(number, text::kTokenNumbers, cat(added_.path, ": '", content, "'"));
      const bool is_special = std::ranges::find(special, content) != special.end();
      model.added.push_back({.content = content, .id = id, .normalized = !is_special, .special = is_special});
    }
  }

  // The special tokens are found in the text too. A special token to which no list gives a number has the next number.
  void add_special_tokens(WordPieceModel& model) const {
    std::map<std::string, int64_t> numbers;
    std::vector<std::string> pieces = split(model.pieces, '\n');
    if (pieces.back().empty()) pieces.pop_back();
    int64_t next = 0;
    for (std::string& piece : pieces) {
      if (piece.ends_with('\r')) piece.pop_back();
      numbers[piece] = next++;
    }
    for (const AddedToken& token : model.added) {
      numbers[token.content] = token.id;
      next = std::max<int64_t>(next, token.id + 1);
    }
    const std::vector<std::string> more = more_special_tokens();
    for (const std::string& content : special_tokens(model.rules)) {
      if (std::ranges::find(model.added, content, &AddedToken::content) != model.added.end()) continue;
      const auto number = numbers.find(content);
      const bool is_listed = number != numbers.end();
      if (!is_listed && std::ranges::find(more, content) == more.end()) continue;
      model.added.push_back({.content = content, .id = is_listed ? number->second : next++, .special = true});
    }
  }

  std::vector<std::string> special_tokens(const text::WordPieceRules& rules) const {
    std::vector<std::string> tokens = {rules.unknown, rules.begin, rules.end,
                                       named_token("pad_token").value_or("[PAD]"),
                                       named_token("mask_token").value_or("[MASK]")};
    const std::vector<std::string> more = more_special_tokens();
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  }

  std::vector<std::string> more_special_tokens() const {
    std::vector<std::string> tokens;
    for (const FolderFile* file : {&config_, &map_}) {
      for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
        const Json* const list = text::find_json(file->object, name);
        if (list == nullptr) continue;
        const std::string place = cat(file->path, ": ", name);
        if (!list->is_structured())
          throw Error(cat(place, ": got ", text::shown_json(*list), "; expected a list of tokens"));
        for (const Json& value : *list) {
          const std::optional<std::string> content = token_text(value, place);
          if (content && !content->empty() && std::ranges::find(tokens, *content) == tokens.end())
            tokens.push_back(*content);
        }
      }
    }
    return tokens;
  }

  FolderFile config_, map_, added_;
  bool has_tokenizer_json_;
  std::string class_;
};

}  // namespace

FolderTokenizer read_tokenizer(const std::filesystem::path& folder) {
  const std::string json = folder / kTokenizerJson, list = folder / text::kWordPieceFile;
  const bool has_json = std::filesystem::exists(json), has_list = std::filesystem::exists(list);
  if (!has_json && !has_list)
    throw Error(cat("'", folder.string(), "' has no ", kTokenizerJson, " and no ", text::kWordPieceFile,
                    "; expected one of them; write them there by tokenizer.save_pretrained(DIR) in Python"));
  WordPieceModel model;
  if (has_json) {
    model = text::parse_tokenizer_json(read_text_file(json), json);
  } else {
    model.pieces = read_text_file(list);
    model.options.lowercase = model.options.strip_accents = !text::is_cased_vocabulary(model.pieces);
  }
  TokenizerSettings(folder, has_json).apply(model);
  const std::string file = has_json ? json : list;
  return {text::EncoderVocab::word_pieces(std::move(model), file), file};
}

void require_writable_tokenizer(const text::EncoderVocab& vocab) {
  const text::WordPieceRules usual, &rules = vocab.word_piece_model().rules;
  if (rules.continued != usual.continued || rules.most_characters != usual.most_characters ||
      !vocab.word_piece_model().options.drop_controls)
    throw Error(cat("--to bert: the tokeniser has the prefix '", rules.continued, "', words of up to ",
                    rules.most_characters, " characters or control characters, which vocab.txt cannot say; expected '",
                    usual.continued, "', ", usual.most_characters, " and none"));
}

void write_tokenizer(const text::EncoderVocab& vocab, int64_t most_tokens, const std::filesystem::path& folder) {
  const WordPieceModel& model = vocab.word_piece_model();
  nlohmann::ordered_json config = {{"tokenizer_class", "BertTokenizer"},
                                   {"do_lower_case", model.options.lowercase},
                                   {"strip_accents", model.options.strip_accents},
                                   {"tokenize_chinese_chars", model.options.split_chinese},
                                   {"unk_token", model.rules.unknown},
                                   {"cls_token", model.rules.begin},
                                   {"sep_token", model.rules.end},
                                   {"model_max_length", most_tokens}};
  for (const AddedToken& token : model.added)
    config["added_tokens_decoder"][std::to_string(token.id)] = {
        {"content", token.content}, {"single_word", token.single_word}, {"lstrip", token.lstrip},
        {"rstrip", token.rstrip},   {"normalized", token.normalized},   {"special", token.special}};
  write_file(folder / kTokenizerConfig, config.dump(2) + "\n");
  write_file(folder / text::kWordPieceFile, model.pieces);
}

}  // namespace fovea::bert
