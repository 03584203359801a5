#pragma once
#include "fovea/spec/stack_config.h"

namespace fovea {

// Sets the layers of Vaswani et al. (2017), with which the tests' numbers were found. `norm` is post or pre.
inline void set_classic_layers(StackConfig& config, const char* norm = "post") {
  config.transformer_norm = norm;
  config.transformer_norm_kind = "layer";
  config.transformer_positions = "sinusoidal";
  config.transformer_ffn_activation = "relu";
}

}  // namespace fovea
