#include "fovea/train/adagrad.h"

#include "fovea/ops/optimizers.h"
#include "fovea/train/tensor_groups.h"

namespace fovea::train {

Adagrad::Adagrad(const TrainConfig& config, const FlatParameters& parameters)
    : eps_(config.adagrad_eps), sum_(parameters.zeros().fill_(config.adagrad_initial)) {}

void Adagrad::step(FlatParameters& parameters, const OptimizerStep& step) {
  ops::AdagradOptions options{.learn_rate = step.learn_rate, .eps = eps_, .grad_scale = step.gradient_scale};
  if (step.tensor_scales.empty()) {
    ops::adagrad_step({.params = parameters.weights(), .sum = sum_, .copy = parameters.compute_copy()},
                      parameters.gradients(), options);
    return;
  }
  const nn::NamedTensors gradients = parameters.views(parameters.gradients()), sums = parameters.views(sum_),
                         copies = parameters.copy_views();
  auto scale = step.tensor_scales.begin();
  for (const auto& [name, weights] : parameters.views(parameters.weights())) {
    options.learn_rate = step.learn_rate * *scale++;
    const auto copy = copies.find(name);
    ops::adagrad_step(
        {.params = weights, .sum = sums.at(name), .copy = copy == copies.end() ? at::Tensor() : copy->second},
        gradients.at(name), options);
  }
}

nn::NamedTensors Adagrad::state(const FlatParameters& parameters) const {
  nn::NamedTensors state;
  insert_group(state, kGroups[0], parameters.views(sum_));
  return state;
}

}  // namespace fovea::train
