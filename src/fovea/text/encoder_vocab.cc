#include "fovea/text/encoder_vocab.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/tokenizer_json.h"

namespace fovea::text {
namespace {

struct OptionWord {
  std::string_view name;
  bool WordPieceOptions::*member;
  bool value;  // that the word stands for
};
constexpr std::array kOptionWords = {OptionWord{"lowercase", &WordPieceOptions::lowercase, true},
                                     OptionWord{"strip-accents", &WordPieceOptions::strip_accents, true},
                                     OptionWord{"split-chinese", &WordPieceOptions::split_chinese, true},
                                     OptionWord{"keep-controls", &WordPieceOptions::drop_controls, false}};

struct RuleWord {
  std::string_view name;
  std::string WordPieceRules::*member;
};
constexpr std::array kRuleWords = {RuleWord{"unknown", &WordPieceRules::unknown},
                                   RuleWord{"begin", &WordPieceRules::begin}, RuleWord{"end", &WordPieceRules::end},
                                   RuleWord{"continued", &WordPieceRules::continued}};
constexpr std::string_view kMostCharactersWord = "most-characters";

// The options in one line, and the rules that are not BERT's: "lowercase split-chinese begin=<s>".
std::string print_options(const WordPieceModel& model) {
  std::vector<std::string> words;
  for (const OptionWord& word : kOptionWords) {
    if (model.options.*word.member == word.value) words.emplace_back(word.name);
  }
  const WordPieceRules usual;
  for (const RuleWord& word : kRuleWords) {
    const std::string& value = model.rules.*word.member;
    if (value != usual.*word.member) words.push_back(cat(word.name, "=", value));
  }
  if (model.rules.most_characters != usual.most_characters)
    words.push_back(cat(kMostCharactersWord, "=", model.rules.most_characters));
  return cat(join(words, " "), "\n");
}

[[noreturn]] void refuse_option_word(const std::string& word, const std::string& origin) {
  std::vector<std::string> known;
  for (const OptionWord& option : kOptionWords) known.emplace_back(option.name);
  for (const RuleWord& rule : kRuleWords) known.push_back(cat(rule.name, "=PIECE"));
  throw Error(cat(origin, ": ", kWordPieceOptionsFile, ": got '", word, "'; expected some of ", join(known, ", "),
                  " and ", kMostCharactersWord, "=N"));
}

void parse_rule(const std::string& word, WordPieceRules& rules, const std::string& origin) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
  const auto* const rule = std::ranges::find(kRuleWords, name, &RuleWord::name);
  if (equals == word.size()) refuse_option_word(word, origin);
  if (rule != kRuleWords.end()) {
    rules.*rule->member = value;
    return;
  }
  const bool is_number =
      !value.empty() && value.size() <= 9 && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  if (name != kMostCharactersWord || !is_number) refuse_option_word(word, origin);
  rules.most_characters = std::stoll(value);
}

void parse_options(const std::string& text, WordPieceModel& model, const std::string& origin) {
  model.options = {.lowercase = false, .strip_accents = false, .split_chinese = false};
  for (const std::string& name : split_words(text)) {
    const auto* const found = std::ranges::find(kOptionWords, name, &OptionWord::name);
    if (found != kOptionWords.end()) {
      model.options.*found->member = found->value;
    } else {
      parse_rule(name, model.rules, origin);
    }
  }
}

// The names of the rules are words of a line in the checkpoint.
void require_words(const WordPieceRules& rules, const std::string& name) {
  for (const RuleWord& word : kRuleWords) {
    const std::string& value = rules.*word.member;
    if (std::ranges::any_of(value, is_space))
      throw Error(cat(name, ": got '", value, "' for the ", word.name, " piece; expected a piece without blanks"));
  }
}

}  // namespace

EncoderVocab EncoderVocab::load(const std::string& path) {
  std::string contents = read_text_file(path);
  if (path.ends_with(".json")) return word_pieces(parse_tokenizer_json(contents, path), path);
  const bool is_list = contents.find("[UNK]") != std::string::npos && is_valid_utf8(contents);
  if (!is_list && !path.ends_with(".txt")) {
    EncoderVocab result;
    result.vocab_ = std::make_shared<const Vocab>(Vocab::from_bytes(contents, path));
    return result;
  }
  const bool is_cased = is_cased_vocabulary(contents);
  return word_pieces({.pieces = std::move(contents), .options = {.lowercase = !is_cased, .strip_accents = !is_cased}},
                     path);
}

EncoderVocab EncoderVocab::word_pieces(WordPieceModel model, const std::string& name) {
  require_words(model.rules, name);
  EncoderVocab result;
  result.pieces_ = std::make_shared<const WordPiece>(std::move(model), name);
  return result;
}

bool EncoderVocab::has_pieces_of(const EncoderVocab& other) const {
  if (is_word_piece() != other.is_word_piece()) return false;
  if (!is_word_piece()) return vocab_->bytes() == other.vocab_->bytes();
  return word_piece_model().pieces == other.word_piece_model().pieces;
}

EncoderVocab EncoderVocab::from_files(const std::map<std::string, std::string>& files, const std::string& origin) {
  const auto vocab = files.find(kEncoderVocabFile), list = files.find(kWordPieceFile);
  if (vocab != files.end()) {
    EncoderVocab result;
    result.vocab_ = std::make_shared<const Vocab>(Vocab::from_bytes(vocab->second, cat(origin, "/", vocab->first)));
    return result;
  }
  const auto options = files.find(kWordPieceOptionsFile);
  if (list == files.end() || options == files.end())
    throw Error(cat(origin, ": damaged: expected the file ", kEncoderVocabFile, ", or ", kWordPieceFile, " and ",
                    kWordPieceOptionsFile));
  WordPieceModel model{.pieces = list->second};
  parse_options(options->second, model, origin);
  if (const auto added = files.find(kAddedTokensFile); added != files.end())
    model.added = parse_added_tokens(added->second, cat(origin, "/", added->first));
  return word_pieces(std::move(model), cat(origin, "/", list->first));
}

int64_t EncoderVocab::size() const { return pieces_ ? pieces_->size() : vocab_->size(); }

std::map<std::string, std::string> EncoderVocab::files() const {
  if (!pieces_) return {{kEncoderVocabFile, vocab_->bytes()}};
  const WordPieceModel& model = word_piece_model();
  std::map<std::string, std::string> files = {{kWordPieceFile, model.pieces},
                                              {kWordPieceOptionsFile, print_options(model)}};
  if (!model.added.empty()) files[kAddedTokensFile] = print_added_tokens(model.added);
  return files;
}

std::string EncoderVocab::piece(int64_t id) const { return pieces_ ? pieces_->piece(id) : vocab_->piece(id); }

std::vector<int64_t> EncoderVocab::encode(std::string_view text) const {
  return pieces_ ? pieces_->encode(text) : vocab_->encode(text);
}

std::vector<int64_t> EncoderVocab::sequence(std::vector<int64_t> pieces, int64_t most) const {
  const auto room = static_cast<size_t>(std::max<int64_t>(0, most - extra_tokens()));
  if (most > 0 && pieces.size() > room) pieces.resize(room);
  if (pieces_) pieces.insert(pieces.begin(), pieces_->cls());
  pieces.push_back(pieces_ ? pieces_->sep() : vocab_->eos());
  return pieces;
}

bool EncoderVocab::is_special(int64_t token) const {
  return pieces_ ? token == pieces_->cls() || token == pieces_->sep() : token == vocab_->eos();
}

std::vector<int64_t> EncoderVocab::encode_word(std::string_view word) const {
  std::vector<int64_t> pieces = encode(word);
  if (pieces.empty()) pieces.push_back(pieces_ ? pieces_->unk() : vocab_->unk());
  return pieces;
}

}  // namespace fovea::text
