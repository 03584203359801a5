#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdint>
#include <regex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_log.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/text_changes.h"
#include "fovea/text/vocab.h"
#include "fovea/text/vocab_count.h"

namespace fovea::text {

void silence_sentencepiece() {
  // The only public way to the library's log level is an option of its trainer; without an input it refuses the rest.
  static const bool kSilenced = [] {
    (void)sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"minloglevel", "3"}});
    return true;
  }();
  (void)kSilenced;
}

namespace {

// SentencePiece's trainer skips longer lines, and lines with U+2585, its mark for rare characters, without a word.
constexpr size_t kMaxVocabLineBytes = 4192;

struct LineSample {
  std::vector<std::string> lines;
  int64_t seen = 0;                    // lines that it was drawn from
  int64_t too_long = 0, reserved = 0;  // left out: longer than kMaxVocabLineBytes, with U+2585
  bool is_of_parts = false;            // all lines with text are too long; these are parts of them, cut at blanks
};

constexpr std::string_view kReserved = "\u2585";

// Whether the library's normaliser leaves anything of the line. Where it leaves nothing of all lines, the library ends
// the process. U+2581 is its blank.
bool has_text(std::string line) {
  for (const std::string_view blank : {"\u2581", "\ufffd"})
    for (size_t at = 0; (at = line.find(blank, at)) != std::string::npos;) line.erase(at, blank.size());
  return !is_empty_line(line);
}

// A uniform sample of at most `limit` lines in one pass (reservoir sampling, Vitter 1985, algorithm R). The library's
// own sampler continues its random stream from training to training, which would make a file depend on what came
// before.
class Reservoir {
 public:
  Reservoir(uint64_t seed, int64_t limit) : rng_(seed), limit_(static_cast<uint64_t>(limit)) {}
  void add(std::string&& line) {
    ++seen_;
    if (lines_.size() < limit_) {
      lines_.push_back(std::move(line));
    } else if (const uint64_t slot = rng_.below(static_cast<uint64_t>(seen_)); slot < limit_) {
      lines_[slot] = std::move(line);
    }
  }
  void clear() { *this = Reservoir(0, 0); }
  int64_t seen() const { return seen_; }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  Rng rng_;
  uint64_t limit_;
  std::vector<std::string> lines_;
  int64_t seen_ = 0;
};

bool is_usable(const std::string& line) { return line.find(kReserved) == std::string::npos && has_text(line); }

// Adds a line that the library would skip, cut at blanks. A part that has none in reach is left out.
void add_parts(std::string_view line, Reservoir& parts) {
  while (!line.empty()) {
    size_t size = line.size() <= kMaxVocabLineBytes ? line.size() : line.rfind(' ', kMaxVocabLineBytes);
    const bool is_cut = size != std::string_view::npos;
    if (!is_cut) size = std::min(line.find(' '), line.size());
    std::string part(line.substr(0, size));
    line.remove_prefix(std::min(size + 1, line.size()));
    if (is_cut && is_usable(part)) parts.add(std::move(part));
  }
}

// A uniform sample of at most `most` lines of text files, plain or compressed, a function of the text and the seed.
// Throws an Error if a file is missing or not UTF-8.
LineSample sample_lines(const std::vector<std::string>& paths, int64_t most, uint64_t seed) {
  LineSample sample;
  log::Progress progress("reading text, lines", 0);
  Reservoir lines(seed, most), parts(seed, most);
  for (const std::string& path : paths) {
    LineReader reader(path);
    for (std::string line; reader.next_text(line);) {
      if ((reader.line_number() & 0xfff) == 0) {
        throw_if_interrupted("reading text for the vocabulary");
        progress.at(static_cast<double>(reader.line_number()));
      }
      if (line.size() > kMaxVocabLineBytes) {
        ++sample.too_long;
        if (lines.seen() == 0) add_parts(line, parts);
      } else if (line.find(kReserved) != std::string::npos) {
        ++sample.reserved;
      } else if (has_text(line)) {
        if (parts.seen() > 0) parts.clear();
        lines.add(std::exchange(line, {}));
      }
    }
  }
  sample.is_of_parts = lines.seen() == 0;
  Reservoir& used = sample.is_of_parts ? parts : lines;
  sample.seen = used.seen();
  sample.lines = used.take();
  return sample;
}

// </s>, <unk>, the control pieces and a piece of the text.
int64_t least_size(const VocabTraining& options) { return 3 + std::ssize(options.control_pieces); }

class SampleIterator : public sentencepiece::SentenceIterator {
 public:
  explicit SampleIterator(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t next_ = 0;
};

// The library's message, with its own names of options, in the words of ours.
[[noreturn]] void fail(const VocabTraining& options, const std::string& message) {
  std::smatch match;
  const std::string size = std::to_string(options.size);
  if (std::regex_search(message, match, std::regex("value <= ([0-9]+)")))
    throw Error(cat("--dim-vocabs: got ", size, "; the text allows at most ", match[1].str(),
                    "; ask for no more, or give more text"));
  if (std::regex_search(message, match, std::regex("required_chars\\. [0-9]+ vs ([0-9]+)")) ||
      std::regex_search(message, match, std::regex("smaller than required_chars[^0-9]*([0-9]+)")))
    throw Error(cat("--dim-vocabs: got ", size, "; expected at least ", match[1].str(),
                    ", one piece for each character of the text",
                    options.byte_fallback ? " and the 256 of --byte-fallback" : "", "; ask for more",
                    options.character_coverage > kMinCharacterCoverage ? ", or lower --character-coverage" : ""));
  throw Error(cat("--dim-vocabs ", size, ": no vocabulary can be learned from this text: ", message));
}

VocabType type_of(const VocabTraining& options) {
  return static_cast<VocabType>(parse_choice<size_t>(kVocabTypeNames, options.type, "--type: got") + 1);
}
bool is_counted(const VocabTraining& options) {
  return type_of(options) == VocabType::kWord || type_of(options) == VocabType::kChar;
}

// Words and characters are counted, all of them: no text is left out and nothing is spelt.
void refuse_learning_options(const VocabTraining& options) {
  const auto refuse = [&](const std::string& option) {
    throw Error(cat(option, ": is for --type unigram and bpe; got --type ", options.type, "; leave it out"));
  };
  if (options.byte_fallback) refuse("--byte-fallback");
  if (options.normalization != kIdentity) refuse(cat("--normalization ", options.normalization));
  if (options.character_coverage < 1) refuse("--character-coverage");
  if (options.max_sentences != kDefaultVocabSample) refuse("--max-lines");
}

void check(const VocabTraining& options) {
  if (options.inputs.empty()) throw Error("--train-sets: got none; expected one or more text files");
  if (options.output.empty()) throw Error("--output: got none; expected a file to write, e.g. joint.spm");
  if (options.size < 0 || (options.size > 0 && options.size < least_size(options)))
    throw Error(cat("--dim-vocabs: got ", options.size, "; expected 0, the default, or at least ", least_size(options),
                    ": </s>, <unk>", options.control_pieces.empty() ? "" : ", ", join(options.control_pieces, ", "),
                    " and a piece of the text"));
  if (is_counted(options)) refuse_learning_options(options);
  for (const std::string& path : options.inputs)
    if (path != "-") require_file(path, "--train-sets");
}

int64_t store(const VocabTraining& options, const std::string& model) {
  const int64_t pieces = Vocab::from_bytes(model, options.output).size();
  write_file(options.output, model);
  return pieces;
}

// A vocabulary may serve the source alone, where normalisation does no harm.
void warn_of_normalization(const VocabTraining& options, const Vocab& vocab, const std::vector<std::string>& lines) {
  TextChanges changes(vocab);
  for (const std::string& line : lines) changes.add(line);
  if (!changes.are_many()) return;
  log::warn(cat("--normalization ", options.normalization, " changes ", changes.in_words(),
                "; a model that writes with this vocabulary writes the changed form; --normalization ", kIdentity,
                " keeps the text as it is"));
}

int64_t train_counted(const VocabTraining& options) {
  const VocabType type = type_of(options);
  const std::string_view units = type == VocabType::kWord ? "words" : "characters";
  UnitCounts counts = count_units(options.inputs, type);
  const auto kinds = std::ssize(counts.units);
  if (kinds == 0) throw Error(cat("--train-sets: no ", units, " in ", join(options.inputs, ", "), "; expected text"));
  const int64_t others = least_size(options) - 1, all = kinds + others;
  const int64_t default_size = type == VocabType::kWord ? kDefaultVocabSize : all;
  const int64_t size = std::min(all, options.size == 0 ? default_size : options.size);
  counts.units.resize(static_cast<size_t>(size - others));
  int64_t covered = 0;
  for (const CountedPiece& unit : counts.units) covered += unit.count;
  const double share = static_cast<double>(covered) / static_cast<double>(counts.total);
  log::info(cat("taking ", thousands(std::ssize(counts.units)), " of ", thousands(kinds), " different ", units,
                ", which make up ", fixed(100 * share, 2), "% of the text's ", thousands(counts.total)));
  return store(options, write_counted_model(type, counts.units, options.control_pieces));
}

int64_t train_learned(const VocabTraining& options) {
  silence_sentencepiece();
  const LineSample sample = sample_lines(options.inputs, options.max_sentences, static_cast<uint64_t>(options.seed));
  if (sample.lines.empty())
    throw Error(cat("--train-sets: no text in ", join(options.inputs, ", "), "; expected lines of at most ",
                    kMaxVocabLineBytes, " bytes, with more than blanks and without U+2585"));
  if (sample.is_of_parts)
    log::warn(cat("all lines with text have over ", kMaxVocabLineBytes, " bytes; they are cut at blanks"));
  if (sample.too_long > 0 && !sample.is_of_parts)
    log::warn(cat(thousands(sample.too_long), " lines of over ", kMaxVocabLineBytes, " bytes left out"));
  if (sample.reserved > 0)
    log::warn(cat(thousands(sample.reserved), " lines with U+2585 (▅), which SentencePiece reserves, left out"));
  log::info(cat("learning ", thousands(options.size), " pieces from ", thousands(std::ssize(sample.lines)), " of ",
                thousands(sample.seen), " lines"));

  const bool keeps_text = options.normalization == kIdentity;
  // The library stores the number of threads in the model. For bpe it only reads with them, a twentieth of the work;
  // for unigram it adds up expectations a thread, and the pieces change with the rounding.
  std::unordered_map<std::string, std::string> arguments = {
      {"vocab_size", std::to_string(options.size)},
      {"model_type", options.type},
      {"character_coverage", shortest(options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", options.normalization},
      {"remove_extra_whitespaces", keeps_text ? "false" : "true"},
      {"num_threads", std::to_string(options.type == "unigram" ? options.threads : 1)},
      {"max_sentence_length", std::to_string(kMaxVocabLineBytes)},
      {"eos_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"minloglevel", "3"},
  };
  if (!options.control_pieces.empty()) arguments["control_symbols"] = join(options.control_pieces, ",");
  // The library keeps tabs for itself while it learns, and would give them no piece.
  const auto has_tab = [](const std::string& line) { return line.find('\t') != std::string::npos; };
  if (!options.normalization.starts_with("nmt_") && std::ranges::any_of(sample.lines, has_tab))
    arguments["user_defined_symbols"] = "\t";
  SampleIterator lines(sample.lines);
  std::string model;
  const auto status = [&] {
    const StoppableAtOnce nothing_to_lose;
    throw_if_interrupted("learning the vocabulary");
    return sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &model);
  }();
  if (!status.ok()) fail(options, status.ToString());
  const int64_t pieces = store(options, model);
  warn_of_normalization(options, Vocab::from_bytes(model, options.output), sample.lines);
  return pieces;
}

}  // namespace

int64_t train_vocab(const VocabTraining& options) {
  check(options);
  require_other_file("--output", options.output, options.inputs);
  require_writable("--output", options.output);
  if (is_counted(options)) return train_counted(options);
  VocabTraining learning = options;
  if (learning.size == 0) learning.size = kDefaultVocabSize;
  return train_learned(learning);
}

}  // namespace fovea::text
