#pragma once
#include <array>

#include "fovea/spec/train_config.h"
#include "fovea/train/flat_parameters.h"
#include "fovea/train/optimizer_step.h"

namespace fovea::train {

// --optimizer adagrad: Duchi et al. (2011). See optimizer.h.
class Adagrad {
 public:
  static constexpr std::array kGroups = {"sum/"};
  Adagrad(const TrainConfig& config, const FlatParameters& parameters);
  // Makes a step. Like in the training of adaptive spans (Sukhbaatar et al. 2019), tensor_scales shorten the step and
  // leave the sums alone. Adagrad's step does not depend on the size of a gradient that was always scaled.
  void step(FlatParameters& parameters, const OptimizerStep& step);
  nn::NamedTensors state(const FlatParameters& parameters) const;

 private:
  double eps_;
  at::Tensor sum_;  // flat
};

}  // namespace fovea::train
