#include "fovea/analysis/plot.h"
#include "fovea/analysis/run_curves.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/state.h"
#include "loaders/loaders.h"

// The files of a run and of its checkpoints.

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

void load_checksums(std::string_view bytes) {
  const auto map = nn::parse_map(bytes, "checksums.yml");
  if (!is_valid_utf8(bytes)) return;  // YAML is Unicode text
  require(must_load([&] { return nn::parse_map(nn::print_map(map), "written"); }) == map,
          "entries change as they are written");
}

void load_progress(std::string_view bytes) {
  const train::TrainState state = train::from_map(nn::parse_map(bytes, "progress.yml"), "progress.yml");
  require(state.updates >= 0 && state.epoch >= 1 && state.batch >= 0 && state.seconds >= 0, "a number is out of range");
  const auto map = train::to_map(state);
  require(must_load([&] { return train::to_map(train::from_map(map, "written")); }) == map,
          "the state changes as it is written");
}

void load_train_options(std::string_view bytes) {
  TrainConfig config;
  from_versioned_yaml(bytes, "train.yml", "1.2.3", field_views(config));
  scalars_of_yaml(bytes);
}

}  // namespace fovea::fuzz
