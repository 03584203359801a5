#include "fovea/tasks/translation/analyze/analyze.h"

#include <algorithm>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/score_config.h"
#include "fovea/tasks/analyze_report.h"

namespace fovea::translation {

void validate(const AnalyzeOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(with_model(options, options.models.empty() ? "" : options.models.front()), problems);
  const bool has_source = !trim(options.source).empty();
  tasks::AnalysisOptions common = options;
  if (!has_source) common.source.clear();
  tasks::add_analysis_problems(common, problems);
  if (!options.train_sets.empty()) add_parallel_text_problems(options.train_sets, problems);
  problems.add_if(options.train_sets.empty() && !options.sweep.empty() && !options.cost,
                  "--sweep needs --train-sets, the text to measure");
  problems.add_if(!options.target.empty() && !has_source, "--target needs --source");
  const bool by_column = options.by.starts_with("column:");
  problems.add_if(!options.by.empty() && options.by != "previous" && !by_column,
                  cat("--by: got '", options.by, "'; expected previous or column:FILE"));
  problems.add_if(!options.by.empty() && options.unit != "word", "--by needs --unit word");
  problems.add_if(by_column && options.train_sets.empty(), "--by column:FILE needs --train-sets");
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
  static_cast<AttentionOverride&>(own) = tasks::override_by(own, entry);
  return own;
}

int64_t run_analyze(const AnalyzeOptions& options) {
  validate(options);
  if (!options.train_sets.empty()) require_parallel_text(options.train_sets);
  if (options.output != "-") require_writable("--output", options.output);
  if (options.cost) return analyze_cost(options);
  if (!options.sweep.empty()) return sweep_mechanisms(options);
  if (!options.source.empty() && !options.json && options.by.empty()) {
    draw_sentence(options);
    return 1;
  }
  return analyze_text(options);
}

}  // namespace fovea::translation
