#include "fovea/text/encoder_vocab.h"

#include <algorithm>
#include <array>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

struct OptionWord {
  std::string_view name;
  bool WordPieceOptions::*member;
};
constexpr std::array kOptionWords = {OptionWord{"lowercase", &WordPieceOptions::lowercase},
                                     OptionWord{"strip-accents", &WordPieceOptions::strip_accents},
                                     OptionWord{"split-chinese", &WordPieceOptions::split_chinese}};

// The options that are on, in one line.
std::string print_options(const WordPieceOptions& options) {
  std::vector<std::string> words;
  for (const OptionWord& word : kOptionWords) {
    if (options.*word.member) words.emplace_back(word.name);
  }
  return cat(join(words, " "), "\n");
}

WordPieceOptions parse_options(const std::string& text, const std::string& origin) {
  WordPieceOptions options{.lowercase = false, .strip_accents = false, .split_chinese = false};
  for (const std::string& name : split_words(text)) {
    const auto* const found = std::ranges::find(kOptionWords, name, &OptionWord::name);
    if (found == kOptionWords.end())
      throw Error(cat(origin, ": ", kWordPieceOptionsFile, ": got '", name,
                      "'; expected some of lowercase, strip-accents and split-chinese"));
    options.*found->member = true;
  }
  return options;
}

}  // namespace

EncoderVocab EncoderVocab::load(const std::string& path) {
  const std::string contents = read_text_file(path);
  const bool is_list = contents.find("[UNK]") != std::string::npos && is_valid_utf8(contents);
  if (!is_list && !path.ends_with(".txt")) {
    EncoderVocab result;
    result.vocab_ = std::make_shared<const Vocab>(Vocab::from_bytes(contents, path));
    return result;
  }
  const bool is_cased = is_cased_vocabulary(contents);
  return word_pieces(WordPiece(contents, path, {.lowercase = !is_cased, .strip_accents = !is_cased}), contents);
}

EncoderVocab EncoderVocab::word_pieces(WordPiece pieces, std::string contents) {
  EncoderVocab result;
  result.pieces_ = std::make_shared<const WordPiece>(std::move(pieces));
  result.contents_ = std::move(contents);
  return result;
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
  return word_pieces(WordPiece(list->second, cat(origin, "/", list->first), parse_options(options->second, origin)),
                     list->second);
}

int64_t EncoderVocab::size() const { return pieces_ ? pieces_->size() : vocab_->size(); }

std::map<std::string, std::string> EncoderVocab::files() const {
  if (!pieces_) return {{kEncoderVocabFile, vocab_->bytes()}};
  return {{kWordPieceFile, contents_}, {kWordPieceOptionsFile, print_options(pieces_->options())}};
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
