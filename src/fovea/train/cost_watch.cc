#include "fovea/train/cost_watch.h"

#include <algorithm>

namespace fovea::train {
namespace {

constexpr int64_t kHighWindows = 3;
constexpr double kShareAbove = 0.5, kLeastAbove = 0.5;  // of the mean; nats
constexpr double kNewest = 0.2;                         // weight of the newest window in the mean

}  // namespace

void CostWatch::end_window(int64_t updates) {
  if (weight <= 0) return;
  const double value = cost / weight;
  cost = weight = 0;
  if (windows > 0 && value > mean + std::max(kShareAbove * mean, kLeastAbove)) {
    ++high;
    return;
  }
  high = 0;
  sound = updates;
  mean = windows == 0 ? value : mean + kNewest * (value - mean);
  ++windows;
}

bool CostWatch::has_diverged() const { return high >= kHighWindows; }

}  // namespace fovea::train
