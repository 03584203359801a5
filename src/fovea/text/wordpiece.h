#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// BERT's tokeniser (Devlin et al. 2019): words between white space and punctuation, cut into the longest pieces of a
// list.
namespace fovea::text {

struct WordPieceOptions {
  bool lowercase = true;
  bool strip_accents = true;  // NFD, then without marks
  bool split_chinese = true;  // every CJK ideograph is a word
  bool operator==(const WordPieceOptions&) const = default;
};

// The words of a text before they are cut: no control characters, split at white space and around each punctuation
// character, without case and accents as the options have it. Bytes that are not UTF-8 are left out.
std::vector<std::string> basic_words(std::string_view text, const WordPieceOptions& options);

// Whether a text of one character is punctuation, as BERT's tokeniser has it.
bool is_punctuation(std::string_view character);

// The list of pieces: a vocab.txt with one piece per line, whose numbers are the lines from 0. Pieces that continue a
// word begin with "##".
class WordPiece {
 public:
  // `contents` is that of a vocab.txt. Throws an Error that begins with `name` if it is not a list of pieces that has
  // [UNK], [CLS] and [SEP]. Of two equal lines the later counts, as in other programs.
  WordPiece(const std::string& contents, const std::string& name, const WordPieceOptions& options);

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  int64_t unk() const { return unk_; }
  int64_t cls() const { return cls_; }
  int64_t sep() const { return sep_; }
  const std::string& piece(int64_t id) const { return pieces_.at(static_cast<size_t>(id)); }
  const WordPieceOptions& options() const { return options_; }

  // The pieces of a text, without [CLS] and [SEP]. A word of more than 100 characters, and one that the list cannot
  // spell, is one [UNK].
  std::vector<int64_t> encode(std::string_view text) const;

 private:
  void encode_word(const std::string& word, std::vector<int64_t>& ids) const;
  int64_t id_of(const std::string& piece, const std::string& name) const;

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int64_t> ids_;
  size_t longest_ = 0;  // bytes of the longest piece
  WordPieceOptions options_;
  int64_t unk_ = 0, cls_ = 0, sep_ = 0;
};

// Whether a vocab.txt is of a cased model: some piece other than those in brackets has a capital letter.
bool is_cased_vocabulary(std::string_view contents);

}  // namespace fovea::text
