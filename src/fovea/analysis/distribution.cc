#include "fovea/analysis/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea::analysis {
namespace {

std::vector<double> sorted_scores(std::span<const double> scores) {
  std::vector<double> sorted(scores.begin(), scores.end());
  std::ranges::sort(sorted);
  return sorted;
}

// `sorted` has scores.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double area_under_curve(std::span<const double> good, std::span<const double> bad) {
  const std::vector<double> others = sorted_scores(bad);
  double won = 0;
  for (const double score : good) {
    const auto [first, last] = std::equal_range(others.begin(), others.end(), score);
    won += static_cast<double>(first - others.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return won / static_cast<double>(good.size()) / static_cast<double>(bad.size());
}

Summary summarize(std::span<const double> scores) {
  if (scores.empty()) return {};
  Summary summary{.count = std::ssize(scores)};
  const auto count = static_cast<double>(scores.size());
  summary.mean = std::accumulate(scores.begin(), scores.end(), 0.0) / count;
  double squares = 0;
  for (const double score : scores) squares += (score - summary.mean) * (score - summary.mean);
  summary.deviation = std::sqrt(squares / count);
  const std::vector<double> sorted = sorted_scores(scores);
  summary.minimum = sorted.front();
  summary.p5 = quantile(sorted, 0.05);
  summary.p25 = quantile(sorted, 0.25);
  summary.median = quantile(sorted, 0.5);
  summary.p75 = quantile(sorted, 0.75);
  summary.p95 = quantile(sorted, 0.95);
  summary.maximum = sorted.back();
  return summary;
}

double Bins::edge(int64_t bin) const {
  if (bin == count) return high;
  return low + (high - low) * static_cast<double>(bin) / static_cast<double>(count);
}

Bins bins_of(std::span<const double> scores, int64_t count) {
  if (scores.empty()) return {.count = count};
  const auto [low, high] = std::ranges::minmax(scores);
  return {low, high, count};
}

std::vector<int64_t> histogram(std::span<const double> scores, const Bins& bins) {
  std::vector<int64_t> counts(static_cast<size_t>(bins.count));
  const double width = bins.high - bins.low;
  for (const double score : scores) {
    const double place = width > 0 ? (score - bins.low) / width * static_cast<double>(bins.count) : 0;
    const double last = static_cast<double>(bins.count - 1);
    ++counts[static_cast<size_t>(std::clamp(std::floor(place), 0.0, last))];
  }
  return counts;
}

std::string bar(int64_t count, int64_t most, int64_t width) {
  if (count == 0) return "";
  const double share = static_cast<double>(count) / static_cast<double>(most);
  return std::string(static_cast<size_t>(std::max(1.0, std::round(share * static_cast<double>(width)))), '#');
}

std::vector<bool> best_of(std::span<const double> scores, int64_t kept) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<bool> best(scores.size());
  for (size_t i = 0; i < std::min(order.size(), static_cast<size_t>(kept)); ++i) best[order[i]] = true;
  return best;
}

}  // namespace fovea::analysis
