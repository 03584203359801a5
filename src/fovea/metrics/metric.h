#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/metrics/evaluate.h"

namespace fovea::metrics {

struct MetricScore {
  double score = 0;
  std::string verbose;  // what follows the score in the common form of a line; may be empty
  std::string line;     // the metric's own form of a line, or empty
};

// One metric over one list of segments: statistics of each segment once, then scores of any selection of segments.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string name() const = 0;                        // as in the report: "BLEU"
  virtual std::string signature(size_t references) const = 0;  // "nrefs:1|case:mixed|..."
  virtual bool lower_is_better() const { return false; }
  virtual void add(const std::string& hypothesis, std::span<const std::string> references) = 0;
  virtual MetricScore score(const std::vector<uint32_t>& segments) const = 0;
};
using Metrics = std::vector<std::unique_ptr<Metric>>;

// Returns the metrics of --metrics in the order of the report, without segments. Throws a UsageError for an unknown
// name and for options that the metrics cannot use.
Metrics make_metrics(const EvaluateOptions& options);

// Throws a UsageError for an option that no metric of --metrics reads: a figure must not look as if it were made with
// it.
void require_read_options(const EvaluateOptions& options);

}  // namespace fovea::metrics
