#include "fovea/analysis/diversity.h"

#include <algorithm>
#include <cmath>

namespace fovea::analysis {
namespace {

double magnitude_of(std::span<const float> row) {
  double sum = 0;
  for (const float weight : row) sum += std::abs(static_cast<double>(weight));
  return sum;
}

double surprise(double p) { return p > 0 ? -p * std::log(p) : 0; }

double signed_power(double weight, double tau) {
  if (tau == 1 || weight == 0) return weight;
  return std::copysign(std::pow(std::abs(weight), tau), weight);
}

}  // namespace

bool HeadDiversity::depends_on_tau() const {
  return std::find(rectified_.begin(), rectified_.end(), true) != rectified_.end();
}

double HeadDiversity::add_rectified(std::span<const float> row, double tau) {
  const bool is_null = std::all_of(row.begin(), row.end(), [](float weight) { return weight == 0; });
  if (is_null) {
    mean_.back() += 1;
    return 0;
  }
  scratch_.resize(row.size());
  double most = -HUGE_VAL;
  for (size_t j = 0; j < row.size(); ++j) {
    scratch_[j] = signed_power(static_cast<double>(row[j]), tau);
    most = std::max(most, scratch_[j]);
  }
  const double of_zero = std::exp(-most);
  double sum = 0, weighted = 0;
  for (double& value : scratch_) {
    const double distance = value - most;
    value = value == 0 ? of_zero : std::exp(distance);
    sum += value, weighted += value * distance;
  }
  for (size_t j = 0; j < row.size(); ++j) mean_[j] += scratch_[j] / sum;
  return std::log(sum) - weighted / sum;  // -sum p log p with p = exp(distance) / sum
}

double HeadDiversity::add_normalised(std::span<const float> row) {
  const double sum = magnitude_of(row);
  if (sum == 0) {
    mean_.back() += 1;
    return 0;
  }
  double entropy = 0;
  for (size_t j = 0; j < row.size(); ++j) {
    const double p = std::abs(static_cast<double>(row[j])) / sum;
    mean_[j] += p;
    entropy += surprise(p);
  }
  return entropy;
}

double HeadDiversity::operator()(const HeadRows& rows, double tau) {
  mean_.assign(static_cast<size_t>(rows.keys + 1), 0);
  double entropies = 0;
  for (int64_t h = 0; h < rows.heads; ++h) {
    const bool rectified = rectified_[static_cast<size_t>(h)];
    entropies += rectified ? add_rectified(rows.of(h), tau) : add_normalised(rows.of(h));
  }
  const auto heads = static_cast<double>(rows.heads);
  double of_mean = 0;
  for (const double p : mean_) of_mean += surprise(p / heads);
  return std::max(0.0, of_mean - entropies / heads);
}

double pair_divergence(std::span<const float> a, std::span<const float> b) {
  const double a_sum = magnitude_of(a), b_sum = magnitude_of(b);
  if (a_sum == 0 || b_sum == 0) return -1;
  double of_mean = 0, own = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    if (a[j] == 0 && b[j] == 0) continue;
    const double p = std::abs(static_cast<double>(a[j])) / a_sum, q = std::abs(static_cast<double>(b[j])) / b_sum;
    of_mean += surprise((p + q) / 2);
    own += surprise(p) + surprise(q);
  }
  return std::max(0.0, of_mean - own / 2);
}

}  // namespace fovea::analysis
