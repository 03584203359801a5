#include <sentencepiece_trainer.h>

#include <regex>
#include <unordered_map>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_log.h"
#include "fovea/text/unicode.h"
#include "fovea/text/vocab.h"

namespace fovea::text {
namespace {

// The library skips longer lines, and lines with its own mark for rare characters, without a word.
constexpr size_t kMaxLineBytes = 4192;
constexpr std::string_view kReserved = "\u2585";

struct Sample {
  std::vector<std::string> lines;
  int64_t seen = 0, too_long = 0, reserved = 0;
};

// Whether the library's normaliser leaves anything of the line. Where it leaves nothing of all lines, the library ends
// the process. U+2581 is its blank.
bool has_text(std::string line) {
  for (const std::string_view blank : {"\u2581", "\ufffd"})
    for (size_t at = 0; (at = line.find(blank, at)) != std::string::npos;) line.erase(at, blank.size());
  return has_visible(line);
}

// A uniform sample of at most `limit` lines in one pass (reservoir sampling, Vitter 1985, algorithm R). The library's
// own sampler continues its random stream from training to training, which would make a file depend on what came
// before.
Sample sample_lines(const VocabTraining& options) {
  Sample sample;
  log::Progress progress("reading text, lines", 0);
  Rng rng(static_cast<uint64_t>(options.seed));
  const auto limit = static_cast<uint64_t>(options.max_sentences);
  for (const std::string& path : options.inputs) {
    LineReader reader(path);
    for (std::string line; reader.next_text(line);) {
      if ((reader.line_number() & 0xfff) == 0) {
        throw_if_interrupted("reading text for the vocabulary");
        progress.at(static_cast<double>(reader.line_number()));
      }
      if (line.size() > kMaxLineBytes) {
        ++sample.too_long;
        continue;
      }
      if (line.find(kReserved) != std::string::npos) {
        ++sample.reserved;
        continue;
      }
      if (!has_text(line)) continue;
      ++sample.seen;
      if (sample.lines.size() < limit) {
        sample.lines.push_back(std::move(line));
        line = {};
      } else if (const uint64_t slot = rng.below(static_cast<uint64_t>(sample.seen)); slot < limit) {
        sample.lines[slot] = line;
      }
    }
  }
  return sample;
}

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

void check(const VocabTraining& options) {
  if (options.inputs.empty()) throw Error("--train-sets: got none; expected one or more text files");
  if (options.output.empty()) throw Error("--output: got none; expected a file to write, e.g. joint.spm");
  if (options.type != "unigram" && options.type != "bpe")
    throw Error(cat("--type: got '", options.type, "'; expected unigram or bpe"));
  for (const std::string& path : options.inputs)
    if (path != "-") require_file(path, "--train-sets");
}

}  // namespace

void silence_sentencepiece() {
  // The only public way to the library's log level is an option of its trainer; without an input it refuses the rest.
  static const bool kSilenced = [] {
    (void)sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"minloglevel", "3"}});
    return true;
  }();
  (void)kSilenced;
}

int64_t train_vocab(const VocabTraining& options) {
  check(options);
  require_other_file("--output", options.output, options.inputs);
  require_writable("--output", options.output);
  silence_sentencepiece();
  const Sample sample = sample_lines(options);
  if (sample.lines.empty())
    throw Error(cat("--train-sets: no text in ", join(options.inputs, ", "), "; expected lines of at most ",
                    kMaxLineBytes, " bytes, with more than blanks and without U+2585"));
  if (sample.too_long > 0)
    log::warn(cat(thousands(sample.too_long), " lines of over ", kMaxLineBytes, " bytes left out"));
  if (sample.reserved > 0)
    log::warn(cat(thousands(sample.reserved), " lines with U+2585 (▅), which SentencePiece reserves, left out"));
  log::info(cat("learning ", thousands(options.size), " pieces from ", thousands(std::ssize(sample.lines)), " of ",
                thousands(sample.seen), " lines"));

  // The library stores the number of threads in the model. For bpe it only reads with them, a twentieth of the work;
  // for unigram it adds up expectations a thread, and the pieces change with the rounding.
  const std::unordered_map<std::string, std::string> arguments = {
      {"vocab_size", std::to_string(options.size)},
      {"model_type", options.type},
      {"character_coverage", shortest(options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"num_threads", std::to_string(options.type == "unigram" ? options.threads : 1)},
      {"max_sentence_length", std::to_string(kMaxLineBytes)},
      {"eos_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"minloglevel", "3"},
  };
  SampleIterator lines(sample.lines);
  std::string model;
  const auto status = [&] {
    const StoppableAtOnce nothing_to_lose;
    throw_if_interrupted("learning the vocabulary");
    return sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &model);
  }();
  if (!status.ok()) fail(options, status.ToString());
  const int64_t pieces = Vocab::from_bytes(model, options.output).size();
  write_file(options.output, model);
  return pieces;
}

}  // namespace fovea::text
