#include "fovea/data/columns.h"

#include <algorithm>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

// One file of columns, checked line by line.
class ColumnFile {
 public:
  ColumnFile(const std::string& path, const ColumnOptions& options) : reader_(path), options_(options) {}

  void read(LabelledText& text) {
    bool begins = true;
    for (std::string line; reader_.next_text(line);) {
      const std::vector<std::string> columns = split_words(line);
      const bool is_mark = !columns.empty() && columns.front() == kDocumentMark;
      if (is_empty_line(line) || is_mark) {
        begins = true;
        continue;
      }
      check(columns);
      if (begins) {
        text.words.emplace_back();
        text.labels.emplace_back();
        if (options_.tags > 0) text.tags.emplace_back();
      }
      begins = false;
      text.words.back().push_back(columns.front());
      text.labels.back().push_back(label_of(columns));
      if (options_.tags > 0) text.tags.back().push_back(columns[static_cast<size_t>(options_.tags - 1)]);
    }
  }

 private:
  std::string place() const { return cat(input_name(reader_.path()), ", line ", reader_.line_number(), ": "); }

  void check(const std::vector<std::string>& columns) {
    const auto count = std::ssize(columns);
    if (columns_ == 0) {
      columns_ = count;
      first_line_ = reader_.line_number();
      if (count < 2)
        throw Error(cat(place(), "got one column; expected a word and its label, with a blank or a tab between"));
      for (const int64_t column : options_.labels) {
        if (column > count)
          throw Error(cat(place(), "got ", count, " columns; expected at least ", column, ", the --label-column"));
      }
      check_tags(count);
    }
    if (count != columns_)
      throw Error(cat(place(), "got ", count, count == 1 ? " column" : " columns", "; expected ", columns_,
                      " as in line ", first_line_));
  }

  // A model that reads the column of its labels would learn to copy it.
  void check_tags(int64_t columns) const {
    if (options_.tags > columns)
      throw Error(
          cat(place(), "got ", columns, " columns; expected at least ", options_.tags, ", the --clause-tag-column"));
    const std::vector<int64_t> labels = options_.labels.empty() ? std::vector{columns} : options_.labels;
    if (std::ranges::find(labels, options_.tags) != labels.end())
      throw Error(cat(place(), "column ", options_.tags, " is the --clause-tag-column and holds the labels; expected ",
                      "tags in another column than what the model predicts"));
  }

  const std::string& label_of(const std::vector<std::string>& columns) const {
    if (options_.labels.empty()) return columns.back();
    for (const int64_t column : options_.labels) {
      const std::string& label = columns.at(static_cast<size_t>(column - 1));
      if (label != "O") return label;
    }
    return columns.at(static_cast<size_t>(options_.labels.front() - 1));
  }

  LineReader reader_;
  const ColumnOptions& options_;
  int64_t columns_ = 0, first_line_ = 0;
};

}  // namespace

LabelledText load_columns(const std::vector<std::string>& paths, const ColumnOptions& options) {
  LabelledText text;
  for (const std::string& path : paths) {
    if (path != "-") require_file(path, options.option);
    const int64_t before = text.size();
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
