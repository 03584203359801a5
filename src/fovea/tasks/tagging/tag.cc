#include "fovea/tasks/tagging/tag.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/line_source.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/models/tagging/tag_sentences.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/tagging/running_text.h"
#include "fovea/text/column_lines.h"

namespace fovea::tagging {
namespace {

using text::ColumnLine;

// Sentences of which all lines are there, and the lines to write when they are labelled.
class TagWriter {
 public:
  TagWriter(const TaggingParts& parts, LineWriter& output) : parts_(parts), output_(output) {}

  // A line that stands between sentences; `label` is its additional column, if any.
  void add_line(std::string line, const std::string& label = "") {
    end_sentence();
    lines_.push_back({std::move(line), label, false});
  }
  // `tag` is the word's part of speech if the model finds clauses by it.
  void add_word(std::string word, std::string line, std::string tag = "") {
    open_.push_back(std::move(word));
    if (!tag.empty()) open_tags_.push_back(std::move(tag));
    lines_.push_back({std::move(line), "", true});
  }
  // A line within a sentence that is not one of its words; `label` is its additional column.
  void add_aside(std::string line, std::string label) { lines_.push_back({std::move(line), std::move(label), false}); }
  void end_sentence() {
    if (open_.empty()) return;
    sentences_.push_back(std::exchange(open_, {}));
    if (!open_tags_.empty()) tags_.push_back(std::exchange(open_tags_, {}));
  }
  // Writes all lines; a sentence has all its lines.
  int64_t flush() {
    end_sentence();
    const std::vector<Labels> labels = tag_sentences(parts_, sentences_, tags_);
    size_t sentence = 0, word = 0;
    int64_t words = 0;
    for (Line& line : lines_) {
      if (line.is_word) {
        line.label = labels[sentence][word++];
        ++words;
      }
      write(line);
      if (sentence < labels.size() && word == labels[sentence].size()) {
        ++sentence;
        word = 0;
      }
    }
    output_.flush();
    sentences_.clear();
    tags_.clear();
    lines_.clear();
    return words;
  }

 private:
  struct Line {
    std::string text, label;
    bool is_word;
  };
  // The column goes behind a tab if the line has one, else behind a blank.
  void write(const Line& line) {
    if (line.label.empty()) return output_.line(line.text);
    output_.line(cat(line.text, line.text.find('\t') != std::string::npos ? '\t' : ' ', line.label));
  }

  const TaggingParts& parts_;
  LineWriter& output_;
  std::vector<Line> lines_;
  std::vector<std::vector<std::string>> sentences_, tags_;
  std::vector<std::string> open_, open_tags_;  // words of a sentence that may go on, and their tags
};

// The reading of lines in columns.
struct TagColumns {
  std::string mark_label;  // of a line that begins a document
  int64_t tags = 0;        // column of the part-of-speech tags; 0: none
};

void add_columns(ColumnLine line, const std::string& input, const TagColumns& how, TagWriter& writer) {
  switch (line.kind) {
    case ColumnLine::Kind::kEmpty:
    case ColumnLine::Kind::kComment:
      return writer.add_line(std::move(line.text));
    case ColumnLine::Kind::kDocument:
      return writer.add_line(std::move(line.text), how.mark_label);
    case ColumnLine::Kind::kAside:
      return writer.add_aside(std::move(line.text), "_");
    case ColumnLine::Kind::kWord:
      break;
  }
  const auto count = std::ssize(line.columns);
  if (how.tags > count)
    throw Error(cat(input, ", line ", line.number, ": got ", count, count == 1 ? " column" : " columns",
                    "; expected at least ", how.tags, ", the --clause-tag-column (0: clauses by words alone)"));
  std::string tag = how.tags > 0 ? line.columns[static_cast<size_t>(how.tags - 1)] : "";
  writer.add_word(line.word(), std::move(line.text), std::move(tag));
}

// Reads running text, and warns once of words that it cannot tell apart.
class TagTextReader {
 public:
  TagTextReader(std::string input, TagWriter& writer) : input_(std::move(input)), writer_(writer) {}

  void add(const std::string& line, int64_t number) {
    for (std::string& word : is_empty_line(line) ? std::vector<std::string>() : words_of_text(line)) {
      if (!has_warned_ && runs_words_together(word)) warn(word, number);
      writer_.add_word(word, word);
    }
    writer_.add_line("");
  }

 private:
  void warn(const std::string& word, int64_t number) {
    has_warned_ = true;
    log::warn(cat(input_, ", line ", number, ": '", word, "' is read as one word, because its script has no blanks ",
                  "between words; expected columns with one word per line, or text with blanks between words"));
  }

  std::string input_;
  TagWriter& writer_;
  bool has_warned_ = false;
};

// Reads columns and warns once of lines that look like running text.
class TagColumnReader {
 public:
  TagColumnReader(std::string input, const TagColumns& how, TagWriter& writer)
      : input_(std::move(input)), how_(how), lines_(input_), writer_(writer) {}

  void add(std::string line) { lines_.add(std::move(line)); }
  void end() { lines_.end(); }
  // Hands complete sentences to the writer.
  void hand_over() {
    std::vector<ColumnLine> lines = lines_.take();
    const ColumnLine* first = std::exchange(is_known_, is_known_ || has_words(lines)) ? nullptr : running_text(lines);
    if (first != nullptr)
      log::warn(cat(input_, ", line ", first->number, ": '", first->text,
                    "' looks like running text, but the input is ",
                    "read as columns, whose first is the word; give --input-format text for one sentence per line"));
    for (ColumnLine& line : lines) add_columns(std::move(line), input_, how_, writer_);
  }

 private:
  static bool has_words(std::span<const ColumnLine> lines) {
    return std::ranges::any_of(lines, [](const ColumnLine& line) { return line.kind == ColumnLine::Kind::kWord; });
  }

  std::string input_;
  const TagColumns& how_;
  text::ColumnLines lines_;
  TagWriter& writer_;
  bool is_known_ = false;  // whether the input is running text
};

}  // namespace

void validate(const TagOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  problems.throw_if_any();
}

int64_t run_tag(const TagOptions& options) {
  validate(options);
  const LoadedTagger loaded = load_tagger(options);
  const TaggingParts parts = loaded.parts(options.mini_batch_words);
  models::LineSource source(options.input);
  LineWriter output(options.output);
  TagWriter writer(parts, output);
  const TagColumns how = {
      .mark_label = loaded.labels.has_chunks() ? std::string(loaded.labels.form().outside()) : "-X-",
      .tags = clause_tag_column(loaded, options.clause_tag_column)};
  if (how.tags > 0 && options.input_format == "text")
    throw UsageError(cat("--input-format text: the model finds clauses by the part-of-speech tags of column ", how.tags,
                         ", and text has no tags; give --clause-tag-column 0 to find them by words alone"));
  TagColumnReader columns(input_name(options.input), how, writer);
  TagTextReader text(input_name(options.input), writer);
  int64_t words = 0, number = 0;
  for (;;) {
    std::vector<std::string> lines = source.next(static_cast<size_t>(options.window));
    if (lines.empty()) break;
    for (std::string& line : lines) {
      ++number;
      if (!is_valid_utf8(line))
        throw Error(cat(input_name(options.input), ", line ", number, ": is not UTF-8; convert the text first"));
      if (options.input_format == "text") {
        text.add(line, number);
      } else {
        columns.add(std::move(line));
      }
    }
    columns.hand_over();
    words += writer.flush();
  }
  columns.end();
  columns.hand_over();
  words += writer.flush();
  output.close();
  return words;
}

}  // namespace fovea::tagging
