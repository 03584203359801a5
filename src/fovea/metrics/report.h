#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/metrics/bootstrap.h"
#include "fovea/metrics/evaluate.h"
#include "fovea/metrics/metric.h"

namespace fovea::metrics {

// A baseline's score by one metric, and the system's difference to it.
struct BaselineResult {
  std::string name;
  double score = 0;
  Interval interval;
  Comparison comparison;
};

// The scores of segments of similar length.
struct BandScore {
  int64_t shortest = 0, longest = 0;
  size_t segments = 0;
  double score = 0;
  std::vector<double> baselines = {};  // their scores, in their order
};
struct BandScores {
  std::string text, unit;  // whose lengths the bands have
  std::vector<BandScore> bands;
};

struct MetricResult {
  std::string name, signature;
  MetricScore score = {};
  Interval interval = {};  // its mean is 0 if there is none
  std::vector<BaselineResult> baselines = {};
  BandScores by_length = {};  // no bands: without --bands
  bool lower_is_better = false;
};

// Returns one metric's result without its baselines, as a line without the newline or as a JSON object.
std::string format_result(const EvaluateOptions& options, const MetricResult& result);

// Returns the whole report, baselines too; ends with a newline.
std::string format_results(const EvaluateOptions& options, std::span<const MetricResult> results);

}  // namespace fovea::metrics
