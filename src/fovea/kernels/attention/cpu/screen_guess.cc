#include "fovea/kernels/attention/cpu/screen_guess.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::kernels {
namespace {

constexpr double kLeastHeight = 1.5;  // deviations of the scores: about what a sample of the block itself gives
constexpr int64_t kFewestRows = 16;
constexpr double kWeight = 0.25;  // of the rows added last

// The margin below the mean height, in deviations of the heights, that costs least. A missed guess costs screening once
// more, for six rows together; a guess that is lower by a deviation of the scores lists e^kSlope times as many
// candidates as the kSelected that remain. Where heights are distributed normally, the first has the slope kMissed
// phi(m) and the second kSelected s e^(s m), with s = kSlope times the deviation of the heights. They often have longer
// tails, so kMissed is four times what it costs, in candidates.
double margin_of(double deviation) {
  constexpr double kMissed = 20000, kSelected = 32, kSlope = 3;
  constexpr double kDensity = 0.39894228;  // phi(0)
  const double s = kSlope * std::max(deviation, 0.03);
  return std::min(3.0, std::sqrt(s * s + 2 * std::log(std::max(1.0, kMissed * kDensity / (kSelected * s)))) - s);
}

}  // namespace

void ThresholdGuess::Heights::add(double height) {
  sum += height;
  squares += height * height;
}

void ThresholdGuess::Heights::learn(int64_t added, int64_t rows) {
  const double new_mean = sum / static_cast<double>(added);
  const double new_variance = std::max(0.0, squares / static_cast<double>(added) - new_mean * new_mean);
  const double weight = rows == 0 ? 1 : kWeight;
  const double step = new_mean - mean;
  mean += weight * step;
  variance += weight * (new_variance + (rows == 0 ? 0 : (1 - weight) * step * step) - variance);
  sum = squares = 0;
}

double ThresholdGuess::Heights::least() const {
  const double deviation = std::sqrt(variance);
  return mean - margin_of(deviation) * deviation;
}

float ThresholdGuess::of(const ScoreMoments& first_whole) const {
  const auto [mean, deviation, high] = first_whole;
  if (rows_ < kFewestRows || !(deviation > 0)) return -std::numeric_limits<float>::infinity();
  const bool by_high = above_high_.variance < above_mean_.variance;
  const double guess = by_high ? high + above_high_.least() * deviation : mean + above_mean_.least() * deviation;
  if (!(guess > mean + kLeastHeight * deviation)) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(guess);
}

void ThresholdGuess::add(const ScoreMoments& first_whole, float threshold) {
  const double above_mean = (double{threshold} - first_whole.mean) / first_whole.deviation;
  const double above_high = (double{threshold} - first_whole.high) / first_whole.deviation;
  if (!std::isfinite(above_mean) || !std::isfinite(above_high)) return;
  above_mean_.add(above_mean);
  above_high_.add(above_high);
  ++added_;
}

void ThresholdGuess::learn() {
  if (added_ == 0) return;
  above_mean_.learn(added_, rows_);
  above_high_.learn(added_, rows_);
  rows_ += added_;
  added_ = 0;
}

}  // namespace fovea::kernels
