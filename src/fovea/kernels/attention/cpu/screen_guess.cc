#include "fovea/kernels/attention/cpu/screen_guess.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::kernels {
namespace {

// A missed guess costs as much as screening six rows; a guess that is too low costs some more keys in the list.
constexpr double kMargin = 3;         // deviations of the thresholds
constexpr double kLeastHeight = 1.5;  // deviations of the scores: about what a sample of the block itself gives
constexpr int64_t kFewestRows = 16;
constexpr double kWeight = 0.25;  // of the rows added last

}  // namespace

float ThresholdGuess::of(const ScoreMoments& first_whole) const {
  const double height = mean_ - kMargin * std::sqrt(variance_);
  if (rows_ < kFewestRows || !(height > kLeastHeight) || !(first_whole.deviation > 0)) {
    return -std::numeric_limits<float>::infinity();
  }
  return static_cast<float>(first_whole.mean + height * first_whole.deviation);
}

void ThresholdGuess::add(const ScoreMoments& first_whole, float threshold) {
  const double height = (double{threshold} - first_whole.mean) / first_whole.deviation;
  if (!std::isfinite(height)) return;
  sum_ += height;
  squares_ += height * height;
  ++added_;
}

void ThresholdGuess::learn() {
  if (added_ == 0) return;
  const double mean = sum_ / static_cast<double>(added_);
  const double variance = std::max(0.0, squares_ / static_cast<double>(added_) - mean * mean);
  const double weight = rows_ == 0 ? 1 : kWeight;
  const double step = mean - mean_;
  mean_ += weight * step;
  variance_ += weight * (variance + (rows_ == 0 ? 0 : (1 - weight) * step * step) - variance_);
  rows_ += added_;
  sum_ = squares_ = 0;
  added_ = 0;
}

}  // namespace fovea::kernels
