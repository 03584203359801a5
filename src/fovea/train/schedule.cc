#include "fovea/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea::train {
namespace {

// The share that is done of what a limit leaves after the warm-up. The warm-up's own share is counted at the mean pace
// of the run so far, share / updates: that needs no memory of when it ended.
double share_after_warmup(double share, double updates, double warmup) {
  if (updates <= warmup) return 0;
  const double done = std::clamp(share, 0.0, 1.0), before = done * warmup / updates;
  return (done - before) / (1 - before);
}

}  // namespace

double learning_rate(const TrainConfig& config, int64_t update, const RunShare& share) {
  const auto step = static_cast<double>(update), warmup = static_cast<double>(config.lr_warmup);
  const double warm = warmup > 0 ? std::min(1.0, step / warmup) : 1.0;
  const double peak = config.learn_rate * warm;
  if (config.lr_decay == "none") return peak;
  if (config.lr_decay == "inv-sqrt") {
    const double reference = std::max(1.0, warmup);
    return config.learn_rate * std::min(warm, std::sqrt(reference / step));
  }
  double p = share_after_warmup(std::max(share.epochs, share.seconds), step - 1, warmup);
  const double updates_left = static_cast<double>(config.after_batches) - warmup;
  if (config.after_batches > 0 && updates_left > 0) p = std::max(p, (step - 1 - warmup) / updates_left);
  p = std::clamp(p, 0.0, 1.0);
  return config.lr_decay == "cosine" ? peak * 0.5 * (1 + std::cos(std::numbers::pi * p)) : peak * (1 - p);
}

}  // namespace fovea::train
