#pragma once
#include <cstdint>

#include "fovea/spec/train_config.h"

namespace fovea::train {

// The progress of a run, for the schedules that end with it.
struct RunShare {
  double epochs = 0;   // of --after-epochs, 0 to 1; 0 without the limit
  double seconds = 0;  // of --stop-after-seconds
};

// The learning rate of one update (from 1): linear warm-up to --learn-rate, then
//   inv-sqrt  rate * sqrt(warmup / update)   (Vaswani et al. 2017)
//   cosine    rate * (1 + cos(pi * p)) / 2   (Loshchilov and Hutter 2017), p from 0 after the warm-up to 1 at the end
//   linear    rate * (1 - p)
//   none      rate
// p is that of the limit that comes first. It is exact for updates. For --after-epochs and --stop-after-seconds, whose
// share s is done after t updates, the warm-up's w updates took s w / t: p = s (1 - w / t) / (1 - s w / t). So p
// depends on the share and the number of updates alone, which a checkpoint holds.
double learning_rate(const TrainConfig& config, int64_t update, const RunShare& share);

}  // namespace fovea::train
