#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/text/column_shape.h"

// Text in columns, as the CoNLL shared tasks have it: one word per line, columns between blanks or tabs, an empty line
// behind each sentence.
namespace fovea::text {

// A line whose first column is this begins a document.
inline constexpr std::string_view kDocumentMark = "-DOCSTART-";

struct ColumnLine {
  // kAside: of CoNLL-U, words written together ("1-2") and words that are not in the text ("1.1").
  enum class Kind : uint8_t { kWord, kEmpty, kDocument, kComment, kAside };
  Kind kind = Kind::kWord;
  std::string text = {};
  std::vector<std::string> columns = {};
  int64_t number = 0;  // of the line, from 1
  size_t word_at = 0;  // the column of the word, from 0: 1 if the first column numbers the words, as in CoNLL-U
  const std::string& word() const { return columns[word_at]; }
};

// Tells what each line is. A line that begins with # is a comment if it stands at the beginning of a sentence and is
// not made as the sentence's other lines: another number of columns, a tab where they have blanks, "# key = value", or
// a last column unlike theirs. Any other is a word, "#" itself or "#tag".
class ColumnLines {
 public:
  // `name` is that of the input, for messages.
  explicit ColumnLines(std::string name) : name_(std::move(name)) {}

  // Adds the next line. Throws an Error that names the line if a file that numbers its words has another line.
  void add(std::string line);
  // No line follows.
  void end();
  // The lines of all sentences that are complete, and the lines between them.
  std::vector<ColumnLine> take() { return std::exchange(ready_, {}); }

  int64_t comments() const { return comments_; }
  int64_t asides() const { return asides_; }

 private:
  enum class Numbers : uint8_t { kUnknown, kNone, kWords };
  using Sentence = std::vector<ColumnLine>;  // or one line between sentences

  void end_sentence();
  void settle(bool is_end);
  bool find_shape(bool is_end);
  void mark_comments(Sentence& sentence);
  void find_numbers(bool is_end);
  void mark_asides(Sentence& sentence);
  void release(Sentence& sentence);
  void warn_of_comment(const ColumnLine& line, const ColumnShape& shape);

  std::string name_;
  int64_t number_ = 0, comments_ = 0, asides_ = 0;
  Sentence open_;
  std::vector<Sentence> held_;             // complete, until it is known how the file is made
  size_t marked_ = 0;                      // of them, those whose comments are known
  size_t shapeless_ = 0, unnumbered_ = 0;  // of them, those that do not tell the shape, or whether words are numbered
  std::vector<ColumnLine> ready_;
  std::optional<ColumnShape> shape_;  // of the last sentence's words
  Numbers numbers_ = Numbers::kUnknown;
  bool has_warned_ = false;
};

}  // namespace fovea::text
