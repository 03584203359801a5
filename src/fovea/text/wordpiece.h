#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/text/added_tokens.h"

// BERT's tokeniser (Devlin et al. 2019): words between white space and punctuation, cut into the longest pieces of a
// list.
namespace fovea::text {

struct WordPieceOptions {
  bool lowercase = true;
  bool strip_accents = true;  // NFD, then without marks
  bool split_chinese = true;  // every CJK ideograph is a word
  bool drop_controls = true;  // control characters are no text
  bool operator==(const WordPieceOptions&) const = default;
};

// The pieces with a meaning of their own, and how a word is cut.
struct WordPieceRules {
  std::string unknown = "[UNK]", begin = "[CLS]", end = "[SEP]";
  std::string continued = "##";   // begins a piece that continues a word
  int64_t most_characters = 100;  // a longer word is unknown
  bool operator==(const WordPieceRules&) const = default;
};

// All that a tokeniser's files say.
struct WordPieceModel {
  std::string pieces;  // contents of a vocab.txt
  WordPieceOptions options = {};
  WordPieceRules rules = {};
  std::vector<AddedToken> added = {};
};

// Numbers that neither pieces nor added tokens have, at most: a file with few pieces must not ask for memory for many.
inline constexpr int64_t kMostUnusedNumbers = 65536;

// The words of a text before they are cut: no control characters, split at white space and around each punctuation
// character, without case and accents as the options have it. Bytes that are not UTF-8 are left out.
std::vector<std::string> basic_words(std::string_view text, const WordPieceOptions& options);

// Whether a text of one character is punctuation, as BERT's tokeniser has it.
bool is_punctuation(std::string_view character);

// The list of pieces: a vocab.txt with one piece per line, whose numbers are the lines from 0.
class WordPiece {
 public:
  // Throws an Error that begins with `name` if the pieces are not a list with the unknown, beginning and end piece, or
  // if an added token has the number of another piece. The later of two equal lines counts, as in other programs.
  WordPiece(WordPieceModel model, const std::string& name);

  // Pieces and added tokens; a number between them that belongs to neither has an empty piece.
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  int64_t unk() const { return unk_; }
  int64_t cls() const { return cls_; }
  int64_t sep() const { return sep_; }
  const std::string& piece(int64_t id) const { return pieces_.at(static_cast<size_t>(id)); }
  const WordPieceModel& model() const { return model_; }

  // The pieces of a text, without the beginning and end pieces. A word of too many characters, and one that the list
  // cannot spell, is one unknown piece.
  std::vector<int64_t> encode(std::string_view text) const;

 private:
  void read_pieces(const std::string& name);
  void add_tokens(const std::string& name);
  void encode_text(std::string_view text, std::vector<int64_t>& ids) const;
  void encode_word(const std::string& word, std::vector<int64_t>& ids) const;
  int64_t id_of(const std::string& piece, const std::string& name) const;

  WordPieceModel model_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int64_t> ids_;  // of the list, which words are cut into
  TokenFinder raw_, normalized_;                  // added tokens of the text, and of the text in its normal form
  size_t longest_ = 0;                            // bytes of the longest piece
  int64_t unk_ = 0, cls_ = 0, sep_ = 0;
};

// Whether a vocab.txt is of a cased model: some piece other than those in brackets has a capital letter.
bool is_cased_vocabulary(std::string_view contents);

}  // namespace fovea::text
