#include "fovea/tasks/tagging/tag.h"

#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/decode/line_source.h"
#include "fovea/spec/config_problems.h"
#include "fovea/text/wordpiece.h"

namespace fovea::tagging {
namespace {

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
  void end_sentence() {
    if (open_.empty()) return;
    sentences_.push_back(std::exchange(open_, {}));
    if (!open_tags_.empty()) tags_.push_back(std::exchange(open_tags_, {}));
  }
  // Writes all but the lines of a sentence that has not ended.
  int64_t flush() {
    const std::vector<Labels> labels = tag_sentences(parts_, sentences_, tags_);
    const size_t complete = lines_.size() - open_.size();
    size_t sentence = 0, word = 0;
    int64_t words = 0;
    for (size_t i = 0; i < complete; ++i) {
      Line& line = lines_[i];
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
    lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(complete));
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
  std::vector<std::string> open_, open_tags_;  // words of a sentence whose end has not come, and their tags
};

// How lines of columns are read.
struct TagColumns {
  std::string mark_label;  // of a line that begins a document
  int64_t tags = 0;        // column of the part-of-speech tags; 0: none
};

void add_columns(std::string line, const std::string& place, const TagColumns& how, TagWriter& writer) {
  std::vector<std::string> columns = split_words(line);
  while (!line.empty() && is_space(line.back())) line.pop_back();
  if (is_empty_line(line)) return writer.add_line("");
  if (columns.front() == data::kDocumentMark) return writer.add_line(line, how.mark_label);
  if (how.tags > std::ssize(columns))
    throw Error(cat(place, "got ", columns.size(), columns.size() == 1 ? " column" : " columns", "; expected at least ",
                    how.tags, ", the --clause-tag-column (0: clauses by words alone)"));
  std::string tag = how.tags > 0 ? columns[static_cast<size_t>(how.tags - 1)] : "";
  writer.add_word(std::move(columns.front()), std::move(line), std::move(tag));
}

void add_text(const std::string& line, TagWriter& writer) {
  if (!is_empty_line(line)) {
    for (std::string& word : words_of_text(line)) writer.add_word(word, word);
  }
  writer.add_line("");
}

// The ends of a word, as one character each, that are punctuation.
bool begins_with_mark(std::string_view word, size_t& size) {
  size = first_character(word).size;
  return text::is_punctuation(word.substr(0, size));
}

}  // namespace

std::vector<std::string> words_of_text(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string& whole : split_words(line)) {
    std::string_view word = whole;
    size_t size = 0;
    while (begins_with_mark(word, size) && size < word.size()) {
      words.emplace_back(word.substr(0, size));
      word.remove_prefix(size);
    }
    std::vector<std::string> behind;
    while (word.size() > 1) {
      size_t last = word.size() - 1;
      while (last > 0 && (static_cast<unsigned char>(word[last]) & 0xc0) == 0x80) --last;
      const bool is_abbreviation = word.ends_with('.') && word.substr(0, last).find('.') != std::string_view::npos &&
                                   word.find("..") == std::string_view::npos;
      if (last == 0 || is_abbreviation || !text::is_punctuation(word.substr(last))) break;
      behind.emplace_back(word.substr(last));
      word = word.substr(0, last);
    }
    words.emplace_back(word);
    words.insert(words.end(), behind.rbegin(), behind.rend());
  }
  return words;
}

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
  decode::LineSource source(options.input);
  LineWriter output(options.output);
  TagWriter writer(parts, output);
  const TagColumns how = {.mark_label = loaded.labels.has_chunks() ? "O" : "-X-",
                          .tags = clause_tag_column(loaded, options.clause_tag_column)};
  if (how.tags > 0 && options.input_format == "text")
    throw UsageError(cat("--input-format text: the model finds clauses by the part-of-speech tags of column ", how.tags,
                         ", and text has no tags; give --clause-tag-column 0 to find them by words alone"));
  int64_t words = 0, number = 0;
  for (;;) {
    std::vector<std::string> lines = source.next(static_cast<size_t>(options.window));
    if (lines.empty()) break;
    for (std::string& line : lines) {
      ++number;
      const std::string place = cat(input_name(options.input), ", line ", number, ": ");
      if (!is_valid_utf8(line)) throw Error(cat(place, "is not UTF-8; convert the text first"));
      if (options.input_format == "text") {
        add_text(line, writer);
      } else {
        add_columns(std::move(line), place, how, writer);
      }
    }
    words += writer.flush();
  }
  writer.end_sentence();
  words += writer.flush();
  output.close();
  return words;
}

}  // namespace fovea::tagging
