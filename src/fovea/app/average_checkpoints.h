#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/spec/run_options.h"

namespace fovea::app {

struct AverageConfig : MachineOptions, LogOptions {
  std::string model, output;
  int64_t last = 5, each = 0;
  std::vector<std::string> valid_sets, valid_metrics;

  static constexpr auto fields() {
    using C = AverageConfig;
    return std::tuple_cat(
        std::tuple(named("model", &C::model, "folder of a run", "m"),
                   number("last", &C::last, "checkpoints to average, the newest", 1, 1e6),
                   number("each", &C::each,
                          "average the --last checkpoints that end at every K-th, counted back from the newest, "
                          "validate each average and keep the best (0: average the newest only)",
                          0, 1e6),
                   field("valid-sets", &C::valid_sets, "validation data for --each (default: those of the run)"),
                   field("valid-metrics", &C::valid_metrics,
                         "measures for --each; the first decides (default: the first of the run)"),
                   named("output", &C::output, "folder of the averaged model", "o")),
        MachineOptions::fields(), LogOptions::fields());
  }
};

// Saves the average of the newest checkpoints. With config.each above 0, saves the best of several averages instead,
// and prints a line on standard output for each; the other options of the validation are those of the run's train.yml.
void average_checkpoints(const AverageConfig& config);

}  // namespace fovea::app
