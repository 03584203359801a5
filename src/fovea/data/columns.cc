#include "fovea/data/columns.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/column_lines.h"

namespace fovea::data {
namespace {

using text::ColumnLine;

// One file of columns, checked line by line.
class ColumnFile {
 public:
  ColumnFile(const std::string& path, const ColumnOptions& options) : path_(path), options_(options) {}

  void read(LabelledText& text) {
    LineReader reader(path_);
    text::ColumnLines lines(input_name(path_));
    for (std::string line; reader.next_text(line);) {
      lines.add(std::move(line));
      add(lines.take(), text);
    }
    lines.end();
    add(lines.take(), text);
    tell_of_other_lines(lines);
  }

 private:
  void add(const std::vector<ColumnLine>& lines, LabelledText& text) {
    for (const ColumnLine& line : lines) {
      if (line.kind == ColumnLine::Kind::kAside) continue;
      if (line.kind != ColumnLine::Kind::kWord) {
        begins_ = true;
        continue;
      }
      check(line);
      if (std::exchange(begins_, false)) {
        text.words.emplace_back();
        text.labels.emplace_back();
        text.lines.emplace_back();
        if (options_.tags > 0) text.tags.emplace_back();
      }
      text.words.back().push_back(line.word());
      text.labels.back().push_back(checked_label(line));
      text.lines.back().push_back(static_cast<uint32_t>(line.number));
      if (options_.tags > 0) text.tags.back().push_back(line.columns[static_cast<size_t>(options_.tags - 1)]);
    }
  }

  std::string place(const ColumnLine& line) const { return cat(input_name(path_), ", line ", line.number, ": "); }

  void tell_of_other_lines(const text::ColumnLines& lines) const {
    const auto tell = [&](int64_t count, const char* what) {
      if (count > 0)
        log::info(
            cat("[data] ", input_name(path_), ": ", thousands(count), what, count == 1 ? " is" : " are", " left out"));
    };
    tell(lines.comments(), lines.comments() == 1 ? " comment line" : " comment lines");
    tell(lines.asides(), lines.asides() == 1 ? " line of CoNLL-U without a word of the text (1-2, 1.1)"
                                             : " lines of CoNLL-U without a word of the text (1-2, 1.1)");
  }

  void check(const ColumnLine& line) {
    const auto count = std::ssize(line.columns);
    if (columns_ == 0) {
      columns_ = count;
      first_line_ = line.number;
      if (count < 2)
        throw Error(cat(place(line), "got one column; expected a word and its label, with a blank or a tab between"));
      for (const int64_t column : options_.labels) {
        if (column > count)
          throw Error(cat(place(line), "got ", count, " columns; expected at least ", column, ", the --label-column"));
      }
      check_tags(line);
      if (line.word_at > 0) check_numbered(line);
    }
    if (count != columns_)
      throw Error(cat(
          place(line), "got ", count, count == 1 ? " column" : " columns", "; expected ", columns_, " as in line ",
          first_line_,
          line.columns.front().starts_with('#') ? "; comments may stand at the beginning of a sentence alone" : ""));
  }

  // A model that reads the column of its labels would learn to copy it.
  void check_tags(const ColumnLine& line) const {
    const auto columns = std::ssize(line.columns);
    if (options_.tags > columns)
      throw Error(cat(place(line), "got ", columns, " columns; expected at least ", options_.tags,
                      ", the --clause-tag-column"));
    const std::vector<int64_t> labels = options_.labels.empty() ? std::vector{columns} : options_.labels;
    if (std::ranges::find(labels, options_.tags) != labels.end())
      throw Error(cat(place(line), "column ", options_.tags, " is the --clause-tag-column and holds the labels; ",
                      "expected tags in another column than what the model predicts"));
  }

  // The last column of CoNLL-U holds no labels.
  void check_numbered(const ColumnLine& line) const {
    constexpr int64_t kConllUColumns = 10, kWordColumn = 2;
    if (options_.labels.empty() && std::ssize(line.columns) == kConllUColumns)
      throw Error(cat(place(line), "got CoNLL-U, whose last column holds no labels; expected --label-column, such as ",
                      "4 for the universal parts of speech"));
    if (options_.tags == kWordColumn || std::ranges::find(options_.labels, kWordColumn) != options_.labels.end())
      throw Error(cat(place(line), "the first column numbers the words and column 2 holds them; expected labels and ",
                      "tags in a column from 3"));
  }

  // Columns between tabs may have blanks.
  const std::string& checked_label(const ColumnLine& line) const {
    const std::string& label = label_of(line.columns);
    if (label.empty() || std::ranges::any_of(label, is_space))
      throw Error(cat(place(line), "got the label '", label, "'; expected one without blanks"));
    return label;
  }

  const std::string& label_of(const std::vector<std::string>& columns) const {
    if (options_.labels.empty()) return columns.back();
    for (const int64_t column : options_.labels) {
      const std::string& label = columns.at(static_cast<size_t>(column - 1));
      if (label != "O" && label != "o") return label;
    }
    return columns.at(static_cast<size_t>(options_.labels.front() - 1));
  }

  const std::string& path_;
  const ColumnOptions& options_;
  int64_t columns_ = 0, first_line_ = 0;
  bool begins_ = true;  // no word of the sentence has come
};

}  // namespace

std::string LabelledText::place(size_t sentence, size_t word) const {
  const auto behind = std::ranges::upper_bound(files, sentence, {}, &File::first_sentence);
  return cat(input_name(std::prev(behind)->path), ", line ", lines.at(sentence).at(word));
}

LabelledText load_columns(const std::vector<std::string>& paths, const ColumnOptions& options) {
  LabelledText text;
  for (const std::string& path : paths) {
    if (path != "-") require_file(path, options.option);
    const int64_t before = text.size();
    text.files.push_back({path, static_cast<size_t>(before)});
    ColumnFile(path, options).read(text);
    if (text.size() == before)
      throw Error(
          cat(options.option, ": ", input_name(path), " has no words; expected a word and its label in each line"));
  }
  return text;
}

std::string fingerprint(const LabelledText& text) {
  std::string all;
  for (size_t s = 0; s < text.words.size(); ++s) {
    for (size_t w = 0; w < text.words[s].size(); ++w) {
      all += text.words[s][w] + "\t" + text.labels[s][w];
      if (!text.tags.empty()) all += "\t" + text.tags[s][w];
      all += "\n";
    }
    all += "\n";
  }
  return checksum(all);
}

}  // namespace fovea::data
