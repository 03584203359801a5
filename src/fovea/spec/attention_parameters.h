#pragma once
#include "fovea/spec/attention_spec.h"

namespace fovea {

// The tensors that a layer's mechanism reads beside q, k and v: of its norm, and a learned alpha a head.
struct AttentionParameters {
  bool gain = false, gate = false, bias = false, alpha = false;
};
AttentionParameters parameters_of(const LayerSpec& spec);

}  // namespace fovea
