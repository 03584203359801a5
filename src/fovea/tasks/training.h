#pragma once
#include <span>

#include "fovea/spec/stack_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/measure.h"

namespace fovea::tasks {

// Sets the newest defaults (spec/defaults.h) that the tasks share. docs/training.md shows the trainings that chose
// them.
inline void use_newest_defaults(TrainConfig& train, StackConfig& stack) {
  // Layers as in today's large models.
  stack.transformer_norm = "pre";
  stack.transformer_norm_kind = "rms";
  stack.transformer_positions = "rotary";
  stack.transformer_ffn_activation = "swiglu";
  // The decay by the root with a warm-up of 100 updates: pre-norm layers do not need the 4,000 of the first edition. At
  // the usual width of 512 the rates behind these 4,000 are the same, and a short training has learned before it ends.
  // The warm-up does not depend on the length of the training, so a run that is resumed with more updates equals one
  // that had them from the beginning. A run that diverges goes back by itself.
  train.learn_rate = kRateByWidth;
  train.lr_warmup = 100;
  train.max_rollbacks = 3;
}

// The parts of a task that `fovea train` needs (setup.h). `measures` returns the table of its measures of validation.
// A function use_own_defaults(TheModel&) in the namespace of TheModel sets the newest defaults that are the task's own.
template <class TheTask, class TheOptions, class TheModel, auto measures>
struct Training {
  using Task = TheTask;
  using Options = TheOptions;
  using Model = TheModel;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
  static void use_defaults(TrainConfig& train, Model& model) {
    use_newest_defaults(train, model);
    if constexpr (requires { use_own_defaults(model); }) use_own_defaults(model);
  }
};

}  // namespace fovea::tasks
