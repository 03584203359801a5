#include "fovea/train/adafactor.h"

namespace fovea::train {

Adafactor::Adafactor(const TrainConfig& config, const FlatParameters& parameters)
    : options_{.relative_step = config.adafactor_relative_step,
               .clip = config.adafactor_clip,
               .decay = config.adafactor_decay,
               .weight_decay = config.weight_decay} {
  const nn::NamedTensors gradients = parameters.views(parameters.gradients()), copies = parameters.copy_views();
  for (const auto& [name, weights] : parameters.views(parameters.weights())) {
    const auto copy = copies.find(name);
    names_.push_back(name);
    parameters_.push_back(
        ops::adafactor_parameter(weights, gradients.at(name), copy == copies.end() ? at::Tensor() : copy->second));
  }
}

void Adafactor::step(FlatParameters& parameters, const OptimizerStep& step) {
  parameters.scale_gradients(step.tensor_scales);
  options_.learn_rate = step.learn_rate;
  options_.grad_scale = step.gradient_scale;
  options_.step = step.update;
  ops::adafactor_step(parameters_, options_);
}

nn::NamedTensors Adafactor::state(const FlatParameters& /*parameters*/) const {
  nn::NamedTensors state;
  for (size_t i = 0; i < names_.size(); ++i) {
    const bool is_matrix = parameters_[i].row.defined();
    if (is_matrix) state[kGroups[0] + names_[i]] = parameters_[i].row;
    state[kGroups[is_matrix ? 1 : 2] + names_[i]] = parameters_[i].column;
  }
  return state;
}

}  // namespace fovea::train
