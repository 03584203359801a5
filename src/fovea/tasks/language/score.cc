#include "fovea/tasks/language/score.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/strings.h"
#include "fovea/data/token_text.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/language/load_model.h"
#include "fovea/tasks/language/score_text.h"
#include "fovea/tasks/score_signature.h"

namespace fovea::language {
namespace {

// The cutting of the text: `context` units are seen before the `stride` units that a pass scores.
struct Cut {
  int64_t context, stride;
};

Cut cut_of(const ScoreOptions& options, const LanguageConfig& config) {
  const int64_t segment = config.segment_length;
  if (config.memory_length > 0) {
    if (options.context >= 0)
      throw UsageError(
          cat("--context: got ", options.context,
              ", but the model has memory, and reads a text as one stream; use --memory-length for how far "
              "its units see, and --stride for the units of a segment"));
    require_positions(config, options.stride, "--stride");
    return {0, options.stride > 0 ? options.stride : segment};
  }
  Cut cut{options.context >= 0 ? options.context : segment / 2, options.stride};
  if (cut.stride == 0) cut.stride = std::max<int64_t>(1, segment - cut.context);
  if (has_learned_positions(config) && cut.context + cut.stride > config.max_positions)
    throw Error(cat("--context ", cut.context, " and --stride ", cut.stride, ": the model has learned positions for ",
                    config.max_positions, " units; expected a sum of at most that"));
  if (cut.context + cut.stride > segment)
    log::warn(cat("a pass reads ", cut.context + cut.stride,
                  " units (--context and --stride); the model's segments "
                  "have ",
                  segment, " (--segment-length)"));
  return cut;
}

// Writes a log-probability for each line or unit as they come.
class LevelWriter {
 public:
  LevelWriter(LineWriter& output, const text::Units& units, const data::TokenText& text, bool by_line)
      : output_(output), units_(units), text_(text), by_line_(by_line) {}

  void add(double log_prob) {
    const int32_t unit = text_.ids[place_++];
    const std::string text = units_.surface(unit);
    const int64_t lines = by_line_ ? std::ranges::count(text, '\n') : 1;
    // Except with lines, </s> ends a document. It belongs to the document's last line, and ends one without a line end.
    const bool ends_document = by_line_ && unit == units_.eos() && lines == 0;
    if (ends_document && has_rest_) end_line();
    if (ends_document && last_) {
      *last_ += log_prob;
      has_rest_ = false;
      return;
    }
    sum_ += log_prob;
    // A unit belongs to the line in which it begins, however many it ends.
    for (int64_t i = 0; i < lines; ++i) end_line();
    has_rest_ = lines == 0 || (by_line_ && text.back() != '\n');
  }
  void finish() {
    if (has_rest_) end_line();
    write_last();
  }

 private:
  void end_line() {
    write_last();
    last_ = std::exchange(sum_, 0);
  }
  void write_last() {
    if (last_) output_.line(fixed(*last_, 6));
    last_.reset();
  }

  LineWriter& output_;
  const text::Units& units_;
  const data::TokenText& text_;
  bool by_line_, has_rest_ = false;
  double sum_ = 0;              // of the line that has not ended
  std::optional<double> last_;  // of the line before it, to which the end of a document may come
  size_t place_ = 0;
};

// One line that says how the numbers were made, so that others can be compared with them.
std::string signature(const ScoreOptions& options, const LoadedModel& loaded, const Cut& cut, const TextScore& score) {
  std::string text = cat("unit:", loaded.units.unit_name(), "|vocab:", loaded.units.size(), "|context:", cut.context,
                         "|stride:", cut.stride, "|documents:", loaded.config.documents, "|units:", score.tokens,
                         "|bytes:", score.bytes, "|words:", score.words, options.words > 0 ? "(given)" : "");
  if (loaded.config.memory_length > 0) text += cat("|memory:", loaded.config.memory_length);
  if (loaded.config.same_length) text += "|same-length";
  if (!options.transformer_positions.empty()) text += cat("|positions:", loaded.config.transformer_positions);
  return text + tasks::signature_end(options, loaded.model->config());
}

void write_measures(LineWriter& output, const TextScore& score) {
  for (const train::Measure& measure : measures().known())
    output.line(cat(measure.name, " ", fixed(measures().value(score, measure.name), 6)));
}

}  // namespace

void validate(const ScoreOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  problems.add_if(options.train_sets.empty(), "--train-sets is missing; expected one or more text files");
  problems.add_if(std::ranges::count(options.train_sets, "-") > 1,
                  "--train-sets: got '-', standard input, more than once; give it once");
  problems.throw_if_any();
}

int64_t run_score(const ScoreOptions& options) {
  require_one_process("fovea score for models of the task language");
  validate(options);
  for (const std::string& path : options.train_sets) {
    if (path != "-") require_file(path, "--train-sets");
  }
  const LoadedModel loaded = load_model(options);
  const Cut cut = cut_of(options, loaded.config);
  const data::TokenText text = data::load_token_text(
      options.train_sets, loaded.units,
      {.documents = parse_choice<data::Documents>(data::kDocumentsNames, loaded.config.documents, "documents"),
       .threads = tasks::encoding_threads(options),
       .option = "--train-sets"});
  const ScoreText scorer(loaded.model, {.context = cut.context + cut.stride,
                                        .stride = cut.stride,
                                        .mini_batch = options.mini_batch,
                                        .memory = loaded.config.memory_length});
  LineWriter output(options.output);
  LevelWriter levels(output, loaded.units, text, options.level == "line");
  const bool of_text = options.level == "text";
  log::Progress progress("scoring, units", static_cast<double>(text.size()));
  int64_t done = 0;
  TextScore score = scorer.run(text, loaded.units.begin(), [&](double log_prob) {
    if ((++done & 0xfff) == 0) progress.at(static_cast<double>(done));
    if (!of_text) levels.add(log_prob);
  });
  progress.finish();
  levels.finish();
  if (options.words > 0) score.words = options.words;
  const std::string how = signature(options, loaded, cut, score);
  if (of_text) {
    write_measures(output, score);
    output.line(cat("signature ", how));
  } else {
    log::info(how);
  }
  output.close();
  return score.tokens;
}

}  // namespace fovea::language
