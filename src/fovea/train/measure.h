#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/spec/config_problems.h"
#include "fovea/train/task.h"

namespace fovea::train {

// "a, b, c".
std::string names_of(std::span<const Measure> measures);

// The measure of that name. Throws a UsageError that lists the names if there is none.
const Measure& measure_of(std::span<const Measure> measures, std::string_view name);

// Adds the problems of --valid-metrics: names that are not measures, names that come twice.
void check_measures(std::span<const Measure> measures, const std::vector<std::string>& names, Problems& problems);

// Whether `value` is an improvement on `best`: never if it is not finite, and always on a best value that is not finite
// or not there.
bool is_better(const Measure& measure, double value, std::optional<double> best);

}  // namespace fovea::train
