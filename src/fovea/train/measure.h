#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/spec/config_problems.h"

namespace fovea::train {

// A measure of validation.
struct Measure {
  std::string_view name;  // as --valid-metrics names it
  bool lower_is_better = true;
  int digits = 4;  // shown in the log
};

// "a, b, c".
std::string names_of(std::span<const Measure> measures);

// The measure of that name. Throws a UsageError that lists the names if there is none.
const Measure& measure_of(std::span<const Measure> measures, std::string_view name);

// Adds the problems of --valid-metrics: names that are not measures, names that come twice.
void check_measures(std::span<const Measure> measures, const std::vector<std::string>& names, Problems& problems);

// Whether `value` is an improvement on `best`: never if it is not finite, and always on a best value that is not finite
// or not there.
bool is_better(const Measure& measure, double value, std::optional<double> best);

// The measures of a task, each with the function that computes it from a Score, which is what the task's validation
// finds.
template <class Score>
class MeasureTable {
 public:
  struct Row {
    Measure measure;
    double (*value)(Score& score);
  };
  MeasureTable(std::initializer_list<Row> rows) {
    for (const Row& row : rows) {
      known_.push_back(row.measure);
      values_.push_back(row.value);
    }
  }

  std::span<const Measure> known() const { return known_; }
  // Throws a UsageError if `name` is not a known measure.
  double value(Score& score, std::string_view name) const {
    return values_[static_cast<size_t>(&measure_of(known_, name) - known_.data())](score);
  }
  std::vector<double> values(Score& score, const std::vector<std::string>& names) const {
    std::vector<double> values;
    for (const std::string& name : names) values.push_back(value(score, name));
    return values;
  }

 private:
  std::vector<Measure> known_;
  std::vector<double (*)(Score&)> values_;
};

}  // namespace fovea::train
