#pragma once
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/spec/train_config.h"
#include "fovea/train/task.h"

namespace fovea::tasks {

// A trained model and validation data, apart from a training: for commands that choose between weights.
struct ModelValidation {
  std::shared_ptr<torch::nn::Module> module;  // float32, on its device, with weights that may be replaced
  std::span<const train::Measure> measures;
  std::vector<std::string> default_measures;  // as train::Task has them
  // Values of measures in the order of their names, as a training with the same options computes them.
  std::function<std::vector<double>(const std::vector<std::string>& names)> validate;
};

// The model of config.model, as the function takes it that loads models of its task.
template <class Options>
Options options_of_validated(const TrainConfig& config) {
  Options options;
  static_cast<MachineOptions&>(options) = config;
  options.model = config.model;
  return options;
}

}  // namespace fovea::tasks
