#include "fovea/train/adam.h"

#include "fovea/ops/step.h"
#include "fovea/train/tensor_groups.h"

namespace fovea::train {

Adam::Adam(const TrainConfig& config, const FlatParameters& parameters)
    : beta1_(config.optimizer_params.at(0)),
      beta2_(config.optimizer_params.at(1)),
      eps_(config.optimizer_params.at(2)),
      weight_decay_(config.weight_decay),
      mean_(parameters.zeros()),
      variance_(parameters.zeros()) {}

void Adam::step(FlatParameters& parameters, const OptimizerStep& step) {
  parameters.scale_gradients(step.tensor_scales);
  ops::adam_step(
      {.params = parameters.weights(), .mean = mean_, .variance = variance_, .copy = parameters.compute_copy()},
      parameters.gradients(),
      {.learn_rate = step.learn_rate,
       .beta1 = beta1_,
       .beta2 = beta2_,
       .eps = eps_,
       .weight_decay = weight_decay_,
       .step = step.update,
       .grad_scale = step.gradient_scale});
}

nn::NamedTensors Adam::state(const FlatParameters& parameters) const {
  nn::NamedTensors state;
  insert_group(state, kGroups[0], parameters.views(mean_));
  insert_group(state, kGroups[1], parameters.views(variance_));
  return state;
}

}  // namespace fovea::train
