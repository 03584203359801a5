#pragma once
#include <cstdint>
#include <vector>

namespace fovea::train {

// The inputs of an update besides the parameters and their gradients.
struct OptimizerStep {
  int64_t update = 1;  // from 1
  double learn_rate = 0;
  double gradient_scale = 1;  // multiplies all gradients
  // Multiplies the gradient of each parameter, in the order of FlatParameters::views(); empty: 1.
  std::vector<double> tensor_scales = {};
};

}  // namespace fovea::train
