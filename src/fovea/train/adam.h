#pragma once
#include <array>

#include "fovea/spec/train_config.h"
#include "fovea/train/flat_parameters.h"
#include "fovea/train/optimizer_step.h"

namespace fovea::train {

// --optimizer adam: Kingma and Ba (2015), with decoupled weight decay (Loshchilov and Hutter 2019). See optimizer.h.
class Adam {
 public:
  static constexpr std::array kGroups = {"mean/", "variance/"};
  Adam(const TrainConfig& config, const FlatParameters& parameters);
  void step(FlatParameters& parameters, const OptimizerStep& step);
  nn::NamedTensors state(const FlatParameters& parameters) const;

 private:
  double beta1_, beta2_, eps_, weight_decay_;
  at::Tensor mean_, variance_;  // flat
};

}  // namespace fovea::train
