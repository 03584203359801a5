#include "fovea/inspect/report_sweep.h"

#include <cmath>
#include <utility>

#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/inspect/analyze_report.h"
#include "fovea/models/diverged.h"

namespace fovea::inspect {

void add_report_sweep(const std::vector<std::string>& entries, const std::string& unit,
                      const std::function<models::GivenScore(const std::string& entry)>& measure,
                      analysis::Report& report) {
  if (entries.empty()) return;
  Sweep sweep{.unit = unit, .units = 0, .beam_size = 0, .points = {}};
  analysis::ReportSweep shown{.unit = unit, .units = 0, .points = {}, .plot = {}};
  log::Progress progress("measuring mechanisms", static_cast<double>(entries.size()));
  for (const std::string& entry : entries) {
    throw_if_interrupted("the report");
    const models::GivenScore loss = measure(entry);
    if (!std::isfinite(loss.nll)) models::refuse_diverged();
    sweep.points.push_back({entry, loss.mean_nll()});
    shown.points.push_back({entry, sweep.points.back().loss});
    sweep.units = shown.units = loss.tokens;
    progress.at(static_cast<double>(sweep.points.size()));
  }
  progress.finish();
  shown.plot = sweep_plot(sweep);
  report.set_sweep(std::move(shown));
}

}  // namespace fovea::inspect
