#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/vocab.h"
#include "fovea/text/wordpiece.h"

namespace fovea::text {

// The text side of an encoder-only model: BERT's pieces, [CLS] before a sequence and [SEP] behind it, or a
// SentencePiece model, </s> behind it.
class EncoderVocab {
 public:
  // Loads the value of an option: the path of a SentencePiece model or of a vocab.txt, told apart by the contents, or
  // of a tokenizer.json, whose name ends in .json. A vocab.txt is taken for a cased one if its pieces have capitals.
  // Throws an Error that names the path.
  static EncoderVocab load(const std::string& path);
  // `name` is that of the pieces' file in messages.
  static EncoderVocab word_pieces(WordPieceModel model, const std::string& name);
  // Reads the files of a checkpoint. Throws an Error that begins with `origin` if a file is missing or damaged.
  static EncoderVocab from_files(const std::map<std::string, std::string>& files, const std::string& origin);

  int64_t size() const;
  bool is_word_piece() const { return pieces_ != nullptr; }
  // The contents of a WordPiece model's files; only if is_word_piece().
  const WordPieceModel& word_piece_model() const { return pieces_->model(); }
  // Whether both cut words into the same pieces, by the same numbers. The text may be prepared in other ways.
  bool has_pieces_of(const EncoderVocab& other) const;
  // The file or files of a model's identity that from_files() reads.
  std::map<std::string, std::string> files() const;
  std::string piece(int64_t id) const;

  // The pieces of a text; a text without any has none.
  std::vector<int64_t> encode(std::string_view text) const;
  // Pieces as one sequence; of too many, those behind `most` tokens are left out (0: no limit).
  std::vector<int64_t> sequence(std::vector<int64_t> pieces, int64_t most = 0) const;
  // Whether the token begins or ends a sequence and stands for no text.
  bool is_special(int64_t token) const;
  // Tokens of a sequence that are not pieces.
  int64_t extra_tokens() const { return is_word_piece() ? 2 : 1; }
  // The pieces of each word, at least one; a word that leaves none is the unknown piece.
  std::vector<int64_t> encode_word(std::string_view word) const;

 private:
  std::shared_ptr<const Vocab> vocab_;       // either this
  std::shared_ptr<const WordPiece> pieces_;  // or this
};

// The names of a checkpoint's files.
inline constexpr const char* kEncoderVocabFile = "units.spm";
inline constexpr const char* kWordPieceFile = "vocab.txt";
inline constexpr const char* kWordPieceOptionsFile = "wordpiece.txt";
inline constexpr const char* kAddedTokensFile = "added-tokens.json";  // only if there are some

}  // namespace fovea::text
