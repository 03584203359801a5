#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/analysis/report.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/inspect/report_options.h"
#include "fovea/inspect/sweep.h"
#include "fovea/models/scorer.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/spec/model_config.h"

// `fovea report`, for models of every task.
namespace fovea::inspect {

// While it lives, adds every attention of this thread's passes, over one sentence each, to the pass that `report` is
// at. An attention's layer is its place among those of its kind.
class ReportObserver {
 public:
  explicit ReportObserver(analysis::Report& report)
      : report_(report),
        observer_(nn::AttentionObserver::SeeCall([this](const nn::SeenAttention& seen) { add(seen); })) {}

 private:
  void add(const nn::SeenAttention& seen);

  analysis::Report& report_;
  std::array<int64_t, 3> layers_ = {};
  nn::AttentionObserver observer_;
};

// The mechanisms of a model's layers in evaluation: "topk(8)", or "1-2 window(16); 3 full" if they differ.
std::string mechanisms_text(const ModelConfig& config, Sublayer sublayer, int64_t depth);

// Puts the curve of --sweep on the page: the mean loss of the report's sentences, as `measure` finds it for each entry.
// The loss is per `unit`.
void add_report_sweep(const std::vector<std::string>& entries, std::string_view unit,
                      const std::function<models::GivenScore(const std::string& entry)>& measure,
                      analysis::Report& report);

// Shows a model's passes over the `sentences` sentences of a page.
template <class Task, class Options, class Loaded>
void add_passes(const Task& task, const Options& options, Loaded& loaded, size_t sentences, analysis::Report& report) {
  log::Progress progress("reading attention, sentences", static_cast<double>(sentences));
  for (size_t i = 0; i < sentences; ++i) {
    throw_if_interrupted("the report");
    task.add_pass(options, loaded, i, report);
    progress.at(static_cast<double>(i + 1));
  }
  progress.finish();
}

// Writes the page of `options`: the passes of `first`, which is the model of --model, the curve of --sweep, and the
// passes of the model or the mechanism that is compared. Returns the number of sentences. Task has
//   kUnit, the unit of the loss;
//   load(options, option that names the model) and details(loaded model);
//   add_pass(options, loaded model, number of the sentence, report), which begins a pass and computes it;
//   loss(options), the loss of the sentences.
template <class Task, class Options, class Loaded>
int64_t write_report(const Task& task, const Options& options, Loaded first,
                     std::vector<analysis::ReportSentence> sentences) {
  const size_t count = sentences.size();
  analysis::Report report(cat("Attention of ", options.model), std::move(sentences));
  std::optional<Loaded> loaded(std::move(first));
  report.begin_model(options.model, task.details(*loaded));
  add_passes(task, options, *loaded, count, report);
  loaded.reset();  // before others take memory
  add_report_sweep(
      options.sweep, Task::kUnit, [&](const std::string& entry) { return task.loss(with_mechanism(options, entry)); },
      report);
  if (compares(options)) {
    const Options other = compared(options);
    loaded.emplace(task.load(other, options.compare.empty() ? "--model" : "--compare"));
    report.begin_model(compared_name(options, options.model), task.details(*loaded));
    add_passes(task, other, *loaded, count, report);
  }
  write_file(options.output, report.html());
  log::info(cat("wrote ", options.output, ": ", thousands(static_cast<int64_t>(count)),
                count == 1 ? " sentence" : " sentences"));
  return static_cast<int64_t>(count);
}

}  // namespace fovea::inspect
