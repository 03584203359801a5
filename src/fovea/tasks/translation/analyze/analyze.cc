#include "fovea/tasks/translation/analyze/analyze.h"

#include <algorithm>
#include <array>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/analyze_report.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/score_config.h"
#include "fovea/tasks/translation/pair_reader.h"

namespace fovea::translation {
namespace {

using Mode = inspect::AnalysisMode;
using inspect::AnalysisUse;

constexpr auto kPictureOnly = static_cast<uint8_t>(Mode::kPicture);
constexpr uint8_t kWithBatches = Mode::kFigures | Mode::kSweep | Mode::kSpeeds;
constexpr std::array kUses = {
    AnalysisUse{"layer", kPictureOnly},
    AnalysisUse{"head", kPictureOnly},
    AnalysisUse{"target", Mode::kPicture | Mode::kFigures},
    AnalysisUse{"by", static_cast<uint8_t>(Mode::kFigures)},
    AnalysisUse{"beam-size", kWithBatches | Mode::kPicture},
    AnalysisUse{"tokenize", static_cast<uint8_t>(Mode::kSweep)},
    AnalysisUse{"cost-pairs", static_cast<uint8_t>(Mode::kSpeeds)},
    AnalysisUse{"mini-batch-words", kWithBatches},
    AnalysisUse{"mini-batch", kWithBatches},
    AnalysisUse{"maxi-batch", Mode::kFigures | Mode::kSweep},
    AnalysisUse{"max-length", kWithBatches},
};

Mode mode_of(const AnalyzeOptions& options) {
  if (options.cost) return options.train_sets.empty() ? Mode::kCost : Mode::kSpeeds;
  if (!options.sweep.empty()) return Mode::kSweep;
  const bool is_picture = !options.source.empty() && !options.json && options.by.empty();
  return is_picture ? Mode::kPicture : Mode::kFigures;
}

// A beam translates the text of --source, but nothing of --train-sets where figures are asked for.
bool leaves_beam_unread(const AnalyzeOptions& options, Mode mode) {
  const bool has_target = !options.target.empty() || (mode == Mode::kFigures && !options.train_sets.empty());
  return options.beam_size > 0 && has_target && (mode == Mode::kPicture || mode == Mode::kFigures);
}

}  // namespace

void validate(const AnalyzeOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(with_model(options, options.models.empty() ? "" : options.models.front()), problems);
  const bool has_source = !trim(options.source).empty();
  inspect::AnalysisOptions common = options;
  if (!has_source) common.source.clear();
  inspect::add_analysis_problems(common, problems);
  if (!options.train_sets.empty()) add_parallel_text_problems(options.train_sets, problems);
  problems.add_if(options.train_sets.empty() && !options.sweep.empty() && !options.cost,
                  "--sweep needs --train-sets, the text to measure");
  problems.add_if(!options.target.empty() && !has_source, "--target needs --source");
  const bool by_column = options.by.starts_with("column:");
  problems.add_if(!options.by.empty() && options.by != "previous" && !by_column,
                  cat("--by: got '", options.by, "'; expected previous or column:FILE"));
  problems.add_if(!options.by.empty() && options.unit != "word", "--by needs --unit word");
  problems.add_if(by_column && options.train_sets.empty(), "--by column:FILE needs --train-sets");
  const Mode mode = mode_of(options);
  inspect::add_unread_problems(options, mode, inspect::kCommonAnalysisUses, problems);
  inspect::add_unread_problems(options, mode, kUses, problems);
  problems.add_if(
      leaves_beam_unread(options, mode),
      "--beam-size: is for a translation of --source, --sweep and --cost; got a text with its target; leave "
      "it out");
  problems.add_if(mode == Mode::kSweep && options.beam_size == 0 && options.tokenize != AnalyzeOptions().tokenize,
                  "--tokenize: is for BLEU; add --beam-size, or leave it out");
  problems.add_if(mode == Mode::kPicture && options.models.size() > 1,
                  cat("--model: got ", options.models.size(), " models; the picture of --source is of one model"));
  const bool reads_input =
      std::find(options.train_sets.begin(), options.train_sets.end(), "-") != options.train_sets.end();
  problems.add_if(reads_input && (options.models.size() > 1 || options.sweep.size() > 1),
                  "--train-sets: the text is read once for each model or mechanism; expected files, not '-'");
  problems.throw_if_any();
}

AnalyzeOptions with_model(const AnalyzeOptions& options, const std::string& model) {
  AnalyzeOptions own = options;
  own.model = model;
  return own;
}

AnalyzeOptions with_mechanism(const AnalyzeOptions& options, const std::string& entry) {
  AnalyzeOptions own = with_model(options, options.models.front());
  static_cast<AttentionOverride&>(own) = inspect::override_by(own, entry);
  return own;
}

void note_recurrent_decoder(const ModelConfig& model) {
  if (!has_recurrent_decoder(model)) return;
  log::info("the decoder has an SSRU in the place of self-attention: only the encoder and cross-attention are shown");
}

int64_t run_analyze(const AnalyzeOptions& options) {
  validate(options);
  if (!options.train_sets.empty()) require_parallel_text(options.train_sets);
  if (options.output != "-") require_writable("--output", options.output);
  switch (mode_of(options)) {
    case Mode::kCost:
    case Mode::kSpeeds:
      return analyze_cost(options);
    case Mode::kSweep:
      return sweep_mechanisms(options);
    case Mode::kFigures:
      return analyze_text(options);
    case Mode::kPicture:
      break;
  }
  draw_sentence(options);
  return 1;
}

}  // namespace fovea::translation
