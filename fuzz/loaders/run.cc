#include "fovea/analysis/plot.h"
#include "fovea/analysis/run_curves.h"
#include "loaders/loaders.h"

namespace fovea::fuzz {

void load_run_record(std::string_view bytes) {
  analysis::Plot plot = {.names = {"run"}, .panels = {}, .x_title = "updates"};
  for (const analysis::RunCurve& curve : analysis::parse_run_curves(bytes, "log.jsonl")) {
    require(!curve.points.empty(), "a curve has no points");
    analysis::PlotCurve drawn = {.name = 0, .points = {}};
    for (const analysis::CurvePoint& point : curve.points)
      drawn.points.emplace_back(static_cast<double>(point.updates), point.value);
    plot.panels.push_back({curve.name, {drawn}});
  }
  if (plot.panels.empty()) return;
  const std::string picture = analysis::svg(plot);
  require(picture.ends_with("</svg>\n"), "the picture is cut");
  require(picture.find("=\"nan") == std::string::npos && picture.find("=\"-nan") == std::string::npos,
          "a place in the picture is not a number");
}

}  // namespace fovea::fuzz
