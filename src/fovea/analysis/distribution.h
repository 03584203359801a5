#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Distributions of scores: how they lie, and how well they tell two sorts of items apart.
namespace fovea::analysis {

// Returns the probability that an item of `good` scores above one of `bad`, where a tie counts half: the area under the
// ROC curve. 1 is perfect, 0.5 is chance. Neither is empty, and no score is NaN.
double area_under_curve(std::span<const double> good, std::span<const double> bad);

struct Summary {
  int64_t count = 0;
  double mean = 0, deviation = 0;                                                  // of the population
  double minimum = 0, p5 = 0, p25 = 0, median = 0, p75 = 0, p95 = 0, maximum = 0;  // interpolated between scores
};
Summary summarize(std::span<const double> scores);  // all 0 for no scores

// Bins of equal width from `low` to `high`; `high` itself is in the last. Scores outside count in the nearest bin.
struct Bins {
  double low = 0, high = 0;
  int64_t count = 10;
  double edge(int64_t bin) const;  // where it begins; edge(count) is high
};
Bins bins_of(std::span<const double> scores, int64_t count);
std::vector<int64_t> histogram(std::span<const double> scores, const Bins& bins);

// A bar of at most `width` signs for `count` of `most`; at least one sign if the count is above 0.
std::string bar(int64_t count, int64_t most, int64_t width);

// Returns which items are among the `kept` with the highest scores; of equal ones the first.
std::vector<bool> best_of(std::span<const double> scores, int64_t kept);

}  // namespace fovea::analysis
