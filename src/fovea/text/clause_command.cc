#include "fovea/text/clause_command.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/clause_labels.h"
#include "fovea/text/clauses.h"
#include "fovea/text/column_lines.h"
#include "fovea/text/language_check.h"

namespace fovea::text {
namespace {

using Tagged = ClauseDictionary::Tagged;

// The separator before a further column of the line.
char column_gap(const std::string& line) { return line.find('\t') != std::string::npos ? '\t' : ' '; }

// A sentence of the input: a line of text, or lines of columns.
struct ClauseSentence {
  std::string text;
  std::vector<TextToken> tokens;  // of `text`
  std::vector<std::string> lines, words, tags;
  // Lines of columns that are not words, and the words before them.
  std::vector<std::pair<size_t, std::string>> other_lines;
};

// Signals by the dictionary, with tags or without, or by the labels of a model.
class SignalFinder {
 public:
  SignalFinder(const ClauseDictionary& dictionary, std::optional<ClauseTagger> tagger)
      : dictionary_(dictionary), tagger_(std::move(tagger)) {}

  const ClauseDictionary& dictionary() const { return dictionary_; }
  bool has_tagger() const { return tagger_.has_value(); }
  bool reads_dictionary() const { return !tagger_ || !tagger_->gives_labels; }
  // Gives each word its tag, if there is a model.
  void tag(std::vector<ClauseSentence>& sentences) const {
    if (!tagger_) return;
    std::vector<ClauseTagger::Sentence> words;
    words.reserve(sentences.size());
    for (const ClauseSentence& sentence : sentences) words.push_back(sentence.words);
    std::vector<ClauseTagger::Sentence> tags = tagger_->tags_of(words);
    for (size_t i = 0; i < sentences.size(); ++i) sentences[i].tags = std::move(tags[i]);
  }
  std::vector<Tagged> signals(const ClauseSentence& sentence) const {
    return tagger_ ? tagger_->signals(dictionary_, sentence.words, sentence.tags)
                   : dictionary_.signals(sentence.words, sentence.tags);
  }

 private:
  const ClauseDictionary& dictionary_;
  std::optional<ClauseTagger> tagger_;
};

// Sentences are text lines, whose words are those of the dictionary.
class SentenceLines {
 public:
  SentenceLines(const ClauseDictionary& dictionary, LineReader& input) : dictionary_(dictionary), input_(input) {}

  bool next(ClauseSentence& sentence) {
    sentence = {};
    if (!input_.next_text(sentence.text)) return false;
    std::ranges::replace(sentence.text, '\t', ' ');  // tabs are what stands between clauses
    sentence.tokens = dictionary_.tokens(sentence.text);
    sentence.words = words_of(sentence.tokens, sentence.text);
    return true;
  }

 private:
  const ClauseDictionary& dictionary_;
  LineReader& input_;
};

// Sentences are lines of columns up to an empty one; comments and the like are lines besides. Their text is the words
// with blanks between them.
class SentenceColumns {
 public:
  // If tag_column is 0, there is no column of tags.
  SentenceColumns(const ClauseOptions& options, const ClauseDictionary& dictionary, LineReader& input)
      : word_(static_cast<size_t>(options.word_column)),
        tag_(static_cast<size_t>(options.tag_column)),
        dictionary_(dictionary),
        input_(input),
        lines_(input_name(input.path())) {}

  bool next(ClauseSentence& sentence) {
    sentence = {};
    bool is_ended = false;
    for (; !is_ended && (!ready_.empty() || read()); ready_.pop_front()) {
      ColumnLine& line = ready_.front();
      if (line.kind == ColumnLine::Kind::kWord) {
        add(line, sentence);
      } else if (line.kind == ColumnLine::Kind::kEmpty) {
        is_ended = true;
      } else {
        if (line.kind == ColumnLine::Kind::kDocument) line.text += cat(column_gap(line.text), kNoSignalLabel);
        if (line.kind == ColumnLine::Kind::kAside) line.text += cat(column_gap(line.text), "_");
        sentence.other_lines.emplace_back(sentence.words.size(), std::move(line.text));
      }
    }
    if (is_first_ && !sentence.tags.empty()) require_tags(sentence);
    is_first_ = is_first_ && sentence.lines.empty();
    return is_ended || !sentence.lines.empty() || !sentence.other_lines.empty();
  }

 private:
  // Reads until a line is ready; false at the end.
  bool read() {
    for (std::string line; ready_.empty() && !is_read_;) {
      is_read_ = !input_.next_text(line);
      if (is_read_) lines_.end();
      if (!is_read_) lines_.add(std::move(line));
      for (ColumnLine& taken : lines_.take()) ready_.push_back(std::move(taken));
    }
    return !ready_.empty();
  }
  void add(ColumnLine& line, ClauseSentence& sentence) {
    check(line);
    const std::string& word = line.columns[word_ - 1];
    if (!sentence.text.empty()) sentence.text += ' ';
    sentence.tokens.push_back({sentence.text.size(), sentence.text.size() + word.size(), true});
    sentence.text += word;
    sentence.words.push_back(word);
    if (tag_ > 0) sentence.tags.push_back(line.columns[tag_ - 1]);
    sentence.lines.push_back(std::move(line.text));
  }
  // Plain text may pass for columns, with words for tags. Tags are in capitals, or the dictionary knows them.
  void require_tags(const ClauseSentence& sentence) const {
    const auto is_tag = [&](const std::string& tag) {
      return dictionary_.knows_tag(tag) || std::ranges::none_of(tag, [](char c) { return c >= 'a' && c <= 'z'; });
    };
    if (std::ranges::any_of(sentence.tags, is_tag)) return;
    throw Error(cat(input_name(input_.path()), ", the first sentence: got '", sentence.tags.front(), "' in column ",
                    tag_, " of the word '", sentence.words.front(),
                    "', and no other word has a part-of-speech tag there; expected a word and its tag per line; for "
                    "plain text leave out --tag-column and --label"));
  }
  void check(const ColumnLine& line) {
    const size_t columns = line.columns.size();
    const std::string place = cat(input_name(input_.path()), " line ", line.number);
    const char* const word = columns == 1 ? " column" : " columns";
    if (line.word_at > 0 && word_ == 1)
      throw Error(cat(place, ": the first column numbers the words (as in CoNLL-U); give --word-column 2"));
    if (columns < std::max(word_, tag_))
      throw Error(cat(place, ": got ", columns, word, "; expected at least ", std::max(word_, tag_), "; see ",
                      tag_ > 0 ? "--word-column and --tag-column" : "--word-column"));
    if (columns_ != 0 && columns != columns_)
      throw Error(cat(place, ": got ", columns, word, "; expected ", columns_, " as in the lines before",
                      is_first_ ? "; for plain text leave out --tag-column and --label" : ""));
    columns_ = columns;
  }

  size_t word_, tag_, columns_ = 0;
  bool is_first_ = true;  // no sentence is complete
  const ClauseDictionary& dictionary_;
  LineReader& input_;
  ColumnLines lines_;
  std::deque<ColumnLine> ready_;
  bool is_read_ = false;  // the input has no further line
};

// Writes one line for each level that is asked for.
void write_clauses(const ClauseSentence& sentence, std::span<const Tagged> signals, int64_t level, LineWriter& output) {
  std::vector<ClauseStart> starts = clause_starts(signals);
  for (ClauseStart& start : starts) start.at = sentence.tokens[start.at].begin;
  for (int64_t l = level == 0 ? 1 : level; l <= (level == 0 ? kClauseLevels : level); ++l)
    output.line(join(clauses(sentence.text, starts, l), "\t"));
}

// The line with "<c2> " before a signal of level 2.
std::string flagged(const ClauseSentence& sentence, std::span<const Tagged> signals, int64_t level) {
  const std::string& line = sentence.text;
  std::string result;
  size_t copied = 0;
  for (size_t i = 0; i < signals.size(); ++i) {
    const int64_t own = level_of(signals[i].signal);
    if (signals[i].role != ClauseDictionary::Role::kSignal || (level > 0 && own > level)) continue;
    const size_t at = sentence.tokens[i].begin;
    result += line.substr(copied, at - copied);
    result += cat(result.empty() || is_space(result.back()) ? "" : " ", "<c", own, "> ");
    copied = at;
  }
  return result + line.substr(copied);
}

void write_labels(const ClauseSentence& sentence, std::span<const Tagged> signals, const Corrections& corrections,
                  LineWriter& output) {
  auto other = sentence.other_lines.begin();
  const auto write_others = [&](size_t words) {
    for (; other != sentence.other_lines.end() && other->first == words; ++other) output.line(other->second);
  };
  for (size_t i = 0; i < sentence.lines.size(); ++i) {
    write_others(i);
    output.line(cat(sentence.lines[i], column_gap(sentence.lines[i]),
                    label_of(signals[i], sentence.words[i], sentence.tags[i], corrections)));
  }
  write_others(sentence.lines.size());
  output.line("");
}

// Warns once if the text is not in the language of the dictionary.
class DictionaryDoubt {
 public:
  DictionaryDoubt(const ClauseOptions& options, const SignalFinder& finder)
      : finder_(finder),
        dictionary_(options.dictionary),
        input_(input_name(options.input)),
        is_open_(finder.reads_dictionary()) {}

  void add(const ClauseSentence& sentence, std::span<const Tagged> signals) {
    if (!is_open_) return;
    language_.add(sentence.words);
    has_signal_ = has_signal_ || std::ranges::any_of(signals, [](const Tagged& word) {
                    return word.role == ClauseDictionary::Role::kSignal && word.signal != Signal::kPunctuation;
                  });
    if (language_.words() >= kWordsOfALanguage) settle();
  }
  void settle() {
    if (!is_open_) return;
    is_open_ = false;
    if (dictionary_.empty()) {
      warn_of_doubt(language_, input_, "--dictionary");
    } else if (!has_signal_ && language_.words() >= kWordsOfALanguage &&
               finder_.dictionary().num_words() >= kManyEntries) {
      log::warn(cat("the first ", thousands(language_.words()), " words of ", input_, " have no signal word of '",
                    dictionary_, "'; expected a dictionary of the text's language"));
    }
  }

 private:
  static constexpr size_t kManyEntries = 20;
  const SignalFinder& finder_;
  std::string dictionary_, input_;
  LanguageCheck language_;
  bool is_open_, has_signal_ = false;
};

// Reads sentences in windows, so that a model tags many together, and writes each by write(sentence, signals).
template <class Reader, class Write>
void each_sentence(Reader& reader, const SignalFinder& finder, const ClauseOptions& options, const Write& write) {
  const auto most = static_cast<size_t>(finder.has_tagger() ? options.window : 1);
  DictionaryDoubt doubt(options, finder);
  for (bool more = true; more;) {
    throw_if_interrupted("splitting clauses");
    std::vector<ClauseSentence> sentences;
    ClauseSentence sentence;
    while (sentences.size() < most && (more = reader.next(sentence))) sentences.push_back(std::move(sentence));
    finder.tag(sentences);
    for (const ClauseSentence& one : sentences) {
      const std::vector<Tagged> signals = finder.signals(one);
      doubt.add(one, signals);
      write(one, signals);
    }
  }
  doubt.settle();
}

void check_clause_options(const ClauseOptions& options) {
  if (!options.corrections.empty() && !options.label)
    throw UsageError("--corrections: they are of labels; give --label too");
  if (options.flags && (options.label || options.tag_column > 0))
    throw UsageError("--flags: it reads text; leave out --label and --tag-column");
  if (options.label && options.level > 0)
    throw UsageError("--level: labels are of all levels; leave out --level or --label");
  if (!options.tagger.empty() && options.tag_column > 0)
    throw UsageError("--tagger and --tag-column: both say where tags come from; leave one of them out");
  if (options.word_column != 1 && options.tag_column == 0 && !options.label)
    throw UsageError("--word-column: the input is text unless --tag-column says where its tags are");
  if (options.window != ClauseOptions{}.window && options.tagger.empty())
    throw UsageError("--window: it is for --tagger; give --tagger or leave it out");
}

void split_text(const ClauseOptions& options, const ClauseDictionary& dictionary, const SignalFinder& finder,
                LineReader& input, LineWriter& output) {
  SentenceLines reader(dictionary, input);
  each_sentence(reader, finder, options, [&](const ClauseSentence& sentence, std::span<const Tagged> signals) {
    if (options.flags) {
      output.line(flagged(sentence, signals, options.level));
    } else {
      write_clauses(sentence, signals, options.level, output);
    }
  });
}

void split_columns(const ClauseOptions& options, const Corrections& corrections, const SignalFinder& finder,
                   LineReader& input, LineWriter& output) {
  SentenceColumns reader(options, finder.dictionary(), input);
  each_sentence(reader, finder, options, [&](const ClauseSentence& sentence, std::span<const Tagged> signals) {
    if (options.label) {
      write_labels(sentence, signals, corrections, output);
    } else if (!sentence.words.empty()) {
      write_clauses(sentence, signals, options.level, output);
    }
  });
}

}  // namespace

void run_clauses(const ClauseOptions& given, const TaggerLoader& load_tagger) {
  check_clause_options(given);
  ClauseOptions options = given;
  if (options.label && options.tag_column == 0 && options.tagger.empty()) options.tag_column = 2;
  require_other_file("--output", options.output, {options.input, options.dictionary, options.corrections});
  const ClauseDictionary dictionary =
      options.dictionary.empty() ? ClauseDictionary::english() : ClauseDictionary::load(options.dictionary);
  const Corrections corrections = read_corrections(options.corrections);
  if (options.input != "-") require_file(options.input, "--input");
  const SignalFinder finder(dictionary, options.tagger.empty() ? std::nullopt : std::optional(load_tagger()));
  LineReader input(options.input);
  LineWriter output(options.output);
  if (options.label || options.tag_column > 0) {
    split_columns(options, corrections, finder, input, output);
  } else {
    split_text(options, dictionary, finder, input, output);
  }
  output.close();
}

}  // namespace fovea::text
