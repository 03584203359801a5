#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "fovea/analysis/plot.h"
#include "fovea/analysis/plot_text.h"
#include "fovea/analysis/run_curves.h"
#include "fovea/app/option_help.h"
#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_options.h"

namespace fovea::app {
namespace {

struct CurvesConfig : LogOptions {
  std::string output, over = "updates";

  static constexpr auto fields() {
    using C = CurvesConfig;
    return std::tuple_cat(
        std::tuple(
            named("output", &C::output,
                  "picture to write, a name that ends in .svg; without it, the curves are drawn on the terminal", "o"),
            choice("over", &C::over, "what runs from left to right; time is that of training alone", "updates|time")),
        LogOptions::fields());
  }
};

struct NamedRun {
  std::string name;
  std::vector<analysis::RunCurve> curves;
};

// The last part of each path, or all of it if two runs share that.
std::vector<std::string> names_of_runs(const std::vector<std::string>& runs) {
  std::vector<std::string> names;
  for (const std::string& run : runs) {
    const std::filesystem::path path = std::filesystem::path(run).lexically_normal();
    names.push_back((path.has_filename() ? path.filename() : path.parent_path().filename()).string());
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (names[i].empty() || names[i] == "." || names[i] == ".." || std::ranges::count(names, names[i]) > 1) return runs;
  }
  return names;
}

analysis::PlotCurve plot_curve(const analysis::RunCurve& curve, size_t run, bool over_time) {
  analysis::PlotCurve drawn = {.name = run, .points = {}};
  for (const analysis::CurvePoint& point : curve.points) {
    if (curve.best == point.updates) drawn.marked = drawn.points.size();
    drawn.points.emplace_back(over_time ? point.seconds : static_cast<double>(point.updates), point.value);
  }
  return drawn;
}

// A panel for each quantity that any of the runs has, in the order in which the first of them has it.
analysis::Plot plot_of(const std::vector<NamedRun>& runs, bool over_time) {
  analysis::Plot plot;
  plot.x_axis = over_time ? analysis::PlotAxis::kSeconds : analysis::PlotAxis::kNumber;
  plot.x_title = over_time ? "training time" : "updates";
  for (size_t run = 0; run < runs.size(); ++run) {
    plot.names.push_back(runs[run].name);
    for (const analysis::RunCurve& curve : runs[run].curves) {
      auto panel = std::ranges::find_if(plot.panels, [&](const auto& other) { return other.title == curve.name; });
      if (panel == plot.panels.end()) panel = plot.panels.insert(panel, {curve.name, {}});
      panel->curves.push_back(plot_curve(curve, run, over_time));
    }
  }
  return plot;
}

void check(const CurvesConfig& config, const std::vector<std::string>& runs) {
  if (runs.empty()) throw UsageError("RUN: got none; expected the folder of a run, or several");
  if (config.output.empty()) return;
  if (!config.output.ends_with(".svg"))
    throw UsageError(cat("--output: got '", config.output, "'; expected a name that ends in .svg"));
  require_writable("--output", config.output);
}

}  // namespace

int run_curves(const std::vector<std::string>& arguments) {
  CurvesConfig config;
  std::vector<std::string> runs;
  Options options("curves", "Draws the training loss and the validation measures of runs.",
                  "RUN [RUN2 ...] [--output FILE.svg] [--over updates|time]");
  options.positional("RUN", runs, "folders of runs");
  options.add(config, "Options");
  options.epilogue(
      "  fovea curves run\n"
      "  fovea curves run --output curves.svg\n"
      "  fovea curves run-full run-topk --over time --output compared.svg");
  if (!options.parse(arguments)) return 0;
  configure_log(config, {});
  check(config, runs);
  const std::vector<std::string> names = names_of_runs(runs);
  std::vector<NamedRun> read;
  for (size_t i = 0; i < runs.size(); ++i) read.push_back({names[i], analysis::read_run_curves(runs[i])});
  const analysis::Plot plot = plot_of(read, config.over == "time");
  if (config.output.empty()) {
    constexpr int64_t kUsual = 80, kMost = 120;
    const int64_t width = help_width();
    std::cout << analysis::text_plot(plot, width == 0 ? kUsual : std::min(width, kMost));
    return 0;
  }
  write_file(config.output, analysis::svg(plot));
  log::info(cat("wrote ", config.output));
  return 0;
}

}  // namespace fovea::app
