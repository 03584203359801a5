#include "fovea/text/clause_command.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/clauses.h"

namespace fovea::text {
namespace {

// One line per level that is asked for.
void write_clauses(std::string_view text, std::span<const ClauseStart> starts, int64_t level, LineWriter& output) {
  for (int64_t l = level == 0 ? 1 : level; l <= (level == 0 ? kClauseLevels : level); ++l)
    output.line(join(clauses(text, starts, l), "\t"));
}

// The line with "<c2> " before a signal of level 2.
std::string flagged(const std::string& line, const ClauseDictionary& dictionary, int64_t level) {
  const std::vector<TextToken> tokens = dictionary.tokens(line);
  std::vector<std::string> words;
  for (const TextToken& token : tokens) words.push_back(line.substr(token.begin, token.end - token.begin));
  const auto signals = dictionary.signals(words, {});
  std::string result;
  size_t copied = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t own = level_of(signals[i].signal);
    if (signals[i].role != ClauseDictionary::Role::kSignal || (level > 0 && own > level)) continue;
    result += line.substr(copied, tokens[i].begin - copied);
    result += cat(result.empty() || is_space(result.back()) ? "" : " ", "<c", own, "> ");
    copied = tokens[i].begin;
  }
  return result + line.substr(copied);
}

void split_lines(const ClauseOptions& options, const ClauseDictionary& dictionary, LineReader& input,
                 LineWriter& output) {
  for (std::string line; input.next_text(line);) {
    throw_if_interrupted("splitting clauses");
    std::ranges::replace(line, '\t', ' ');  // tabs are what stands between clauses
    if (options.flags) {
      output.line(flagged(line, dictionary, options.level));
    } else {
      write_clauses(line, clause_starts(line, dictionary), options.level, output);
    }
  }
}

// A sentence of columns.
struct ColumnSentence {
  std::vector<std::string> lines, words, tags;
};

class ColumnReader {
 public:
  ColumnReader(const ClauseOptions& options, const ClauseDictionary& dictionary, LineReader& input)
      : word_(static_cast<size_t>(options.word_column)),
        tag_(static_cast<size_t>(options.tag_column)),
        dictionary_(dictionary),
        input_(input) {}

  // The next lines up to an empty one; false at the end.
  bool next(ColumnSentence& sentence) {
    sentence = {};
    bool is_ended = false;
    for (std::string line; input_.next_text(line);) {
      throw_if_interrupted("splitting clauses");
      std::vector<std::string> columns = split_words(line);
      is_ended = columns.empty();
      if (is_ended) break;
      check(columns.size());
      sentence.words.push_back(columns[word_ - 1]);
      sentence.tags.push_back(columns[tag_ - 1]);
      sentence.lines.push_back(std::move(line));
    }
    if (is_first_ && !sentence.tags.empty()) require_tags(sentence);
    is_first_ = is_first_ && sentence.tags.empty();
    return is_ended || !sentence.lines.empty();
  }

 private:
  // Plain text may pass for columns, with words for tags. Tags are in capitals, or the dictionary knows them.
  void require_tags(const ColumnSentence& sentence) const {
    const auto is_tag = [&](const std::string& tag) {
      return dictionary_.knows_tag(tag) || std::ranges::none_of(tag, [](char c) { return c >= 'a' && c <= 'z'; });
    };
    if (std::ranges::any_of(sentence.tags, is_tag)) return;
    throw Error(cat(input_name(input_.path()), ", the first sentence: got '", sentence.tags.front(), "' in column ",
                    tag_, " of the word '", sentence.words.front(),
                    "', and no other word has a part-of-speech tag there; expected a word and its tag per line; for "
                    "plain text leave out --tag-column and --label"));
  }
  void check(size_t columns) {
    const std::string place = cat(input_name(input_.path()), " line ", input_.line_number());
    const char* const word = columns == 1 ? " column" : " columns";
    if (columns < std::max(word_, tag_))
      throw Error(cat(place, ": got ", columns, word, "; expected at least ", std::max(word_, tag_),
                      "; see --word-column and --tag-column"));
    if (columns_ != 0 && columns != columns_)
      throw Error(cat(place, ": got ", columns, word, "; expected ", columns_, " as in the lines before",
                      is_first_ ? "; for plain text leave out --tag-column and --label" : ""));
    columns_ = columns;
  }

  size_t word_, tag_, columns_ = 0;
  bool is_first_ = true;  // no sentence is complete
  const ClauseDictionary& dictionary_;
  LineReader& input_;
};

std::vector<std::string> known_labels() {
  std::vector<std::string> labels(kSignalLabels.begin(), kSignalLabels.end());
  labels.emplace_back(kNoSignalLabel);
  return labels;
}

// Labels by word, in lower case, and tag.
using Corrections = std::map<std::pair<std::string, std::string>, std::string>;

Corrections read_corrections(const std::string& path) {
  Corrections corrections;
  if (path.empty()) return corrections;
  require_file(path, "--corrections");
  LineReader input(path);
  const std::vector<std::string> labels = known_labels();
  for (std::string line; input.next_text(line);) {
    const std::vector<std::string> columns = split_words(line);
    if (columns.empty() || line.starts_with('#')) continue;
    const std::string place = cat("'", path, "' line ", input.line_number());
    if (columns.size() != 3)
      throw Error(cat(place, ": got ", columns.size(), columns.size() == 1 ? " column" : " columns",
                      "; expected three: a word, its tag or *, and a label"));
    if (std::ranges::find(labels, columns[2]) == labels.end())
      throw Error(cat(place, ": got the label '", columns[2], "'; expected one of ", join(labels, ", "),
                      did_you_mean(columns[2], labels)));
    corrections[{lower(columns[0]), columns[1]}] = columns[2];
  }
  return corrections;
}

std::string label_of(const ClauseDictionary::Tagged& tagged) {
  if (tagged.role == ClauseDictionary::Role::kOther) return std::string(kNoSignalLabel);
  return std::string(kSignalLabels[static_cast<size_t>(tagged.signal)]);
}

void write_labels(const ColumnSentence& sentence, const ClauseDictionary& dictionary, const Corrections& corrections,
                  LineWriter& output) {
  const auto signals = dictionary.signals(sentence.words, sentence.tags);
  for (size_t i = 0; i < sentence.lines.size(); ++i) {
    std::string label = label_of(signals[i]);
    const std::string word = lower(sentence.words[i]);
    for (const std::string& tag : {std::string("*"), sentence.tags[i]})
      if (const auto found = corrections.find({word, tag}); found != corrections.end()) label = found->second;
    const bool tabs = sentence.lines[i].find('\t') != std::string::npos;
    output.line(cat(sentence.lines[i], tabs ? "\t" : " ", label));
  }
}

// Sentences of words as lines: words stand apart by blanks.
void write_columns(const ColumnSentence& sentence, const ClauseDictionary& dictionary, int64_t level,
                   LineWriter& output) {
  std::vector<ClauseStart> starts = clause_starts(sentence.words, sentence.tags, dictionary);
  std::vector<size_t> begins;
  std::string text;
  for (const std::string& word : sentence.words) {
    begins.push_back(text.size());
    text += cat(word, begins.size() < sentence.words.size() ? " " : "");
  }
  for (ClauseStart& start : starts) start.at = begins[start.at];
  write_clauses(text, starts, level, output);
}

void check_clause_options(const ClauseOptions& options) {
  if (!options.corrections.empty() && !options.label)
    throw UsageError("--corrections: they are of labels; give --label too");
  if (options.flags && (options.label || options.tag_column > 0))
    throw UsageError("--flags: it reads text; leave out --label and --tag-column");
  if (options.label && options.level > 0)
    throw UsageError("--level: labels are of all levels; leave out --level or --label");
  if (options.word_column != 1 && options.tag_column == 0 && !options.label)
    throw UsageError("--word-column: the input is text unless --tag-column says where its tags are");
}

}  // namespace

void run_clauses(const ClauseOptions& given) {
  check_clause_options(given);
  ClauseOptions options = given;
  if (options.label && options.tag_column == 0) options.tag_column = 2;
  require_other_file("--output", options.output, {options.input, options.dictionary, options.corrections});
  const ClauseDictionary own =
      options.dictionary.empty() ? ClauseDictionary::english() : ClauseDictionary::load(options.dictionary);
  const Corrections corrections = read_corrections(options.corrections);
  if (options.input != "-") require_file(options.input, "--input");
  LineReader input(options.input);
  LineWriter output(options.output);
  if (options.tag_column == 0) {
    split_lines(options, own, input, output);
  } else {
    ColumnReader columns(options, own, input);
    for (ColumnSentence sentence; columns.next(sentence);) {
      if (options.label) {
        write_labels(sentence, own, corrections, output);
        output.line("");
      } else if (!sentence.words.empty()) {
        write_columns(sentence, own, options.level, output);
      }
    }
  }
  output.close();
}

}  // namespace fovea::text
