#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Text in columns, as the CoNLL shared tasks have it: one word per line, columns between blanks or tabs, an empty line
// behind each sentence. text/column_lines.h tells which lines are words.
namespace fovea::data {

// The words of sentences and their labels.
struct LabelledText {
  std::vector<std::vector<std::string>> words, labels;
  std::vector<std::vector<std::string>> tags;     // part-of-speech tags; empty without ColumnOptions::tags
  std::vector<std::vector<uint32_t>> lines = {};  // of the words in their files, from 1
  struct File {
    std::string path;
    size_t first_sentence;
  };
  std::vector<File> files = {};

  int64_t size() const { return std::ssize(words); }
  // The place of a word, for messages: "'train', line 12".
  std::string place(size_t sentence, size_t word) const;
};

struct ColumnOptions {
  // The columns of the labels, from 1; none: the last. With two columns, a word has the first one's label, or the
  // second's if the first one's is O.
  std::vector<int64_t> labels = {};
  int64_t tags = 0;                     // column of the part-of-speech tags, from 1; 0: none
  std::string option = "--train-sets";  // that named the files, for messages
};

// Reads files, plain or compressed; "-" is standard input. The word is the first column, or the second if the first
// numbers the words, as in CoNLL-U. Comments, and the lines of CoNLL-U without a word of the text, are left out, and
// the log says how many. Throws an Error that names the file and the line if a line has another number of columns than
// the first, or none for the labels or tags, or if the tags are the labels, and for a text without words.
LabelledText load_columns(const std::vector<std::string>& paths, const ColumnOptions& options);

// XXH3 of all words, labels and tags.
std::string fingerprint(const LabelledText& text);

}  // namespace fovea::data
