#include "fovea/train/measure.h"

#include <cmath>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::train {
namespace {

std::vector<std::string> list_of(std::span<const Measure> measures) {
  std::vector<std::string> names;
  for (const Measure& measure : measures) names.emplace_back(measure.name);
  return names;
}

}  // namespace

std::string names_of(std::span<const Measure> measures) { return join(list_of(measures), ", "); }

const Measure& measure_of(std::span<const Measure> measures, std::string_view name) {
  for (const Measure& measure : measures) {
    if (measure.name == name) return measure;
  }
  const std::vector<std::string> names = list_of(measures);
  throw UsageError(cat("got '", name, "'; expected some of ", join(names, ", "), did_you_mean(name, names)));
}

void check_measures(std::span<const Measure> measures, const std::vector<std::string>& names, Problems& problems) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    problems.add_thrown_by("valid-metrics", [&] { measure_of(measures, name); });
    problems.add_if(!seen.insert(name).second, cat("--valid-metrics has '", name, "' twice; give it once"));
  }
}

bool is_better(const Measure& measure, double value, std::optional<double> best) {
  if (!std::isfinite(value)) return false;
  if (!best || !std::isfinite(*best)) return true;
  return measure.lower_is_better ? value < *best : value > *best;
}

}  // namespace fovea::train
