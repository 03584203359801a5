#include <sentencepiece_trainer.h>

#include <algorithm>
#include <regex>
#include <unordered_map>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_log.h"
#include "fovea/text/text_changes.h"
#include "fovea/text/vocab.h"
#include "fovea/text/vocab_count.h"
#include "fovea/text/vocab_sample.h"

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
