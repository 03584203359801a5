#pragma once
#include "fovea/spec/stack_config.h"
#include "fovea/spec/train_config.h"

// The newest defaults (spec/defaults.h) that the tasks share. docs/training.md shows the trainings that chose them.
namespace fovea::tasks {

// Layers as in today's large models.
inline void use_newest_layers(StackConfig& stack) {
  stack.transformer_norm = "pre";
  stack.transformer_norm_kind = "rms";
  stack.transformer_positions = "rotary";
  stack.transformer_ffn_activation = "swiglu";
}

// The decay by the root with a warm-up of 100 updates: pre-norm layers do not need the 4,000 of the first edition. At
// the usual width of 512 the rates behind these 4,000 are the same, and a short training has learned before it ends.
// The warm-up does not depend on the length of the training, so a run that is resumed with more updates equals one that
// had them from the beginning. A run that diverges goes back by itself.
inline void use_newest_schedule(TrainConfig& train) {
  train.learn_rate = kRateByWidth;
  train.lr_warmup = 100;
  train.max_rollbacks = 3;
}

}  // namespace fovea::tasks
