#pragma once
#include "fovea/spec/attention_spec.h"

namespace fovea {

// The tensors that a layer's mechanism reads beside q, k and v: of its norm, and its transform's learned argument, a
// value a head.
struct AttentionParameters {
  bool gain = false, gate = false, bias = false, alpha = false;
  int64_t mix_levels = 0;     // of mixtures of clauses with learned weights
  bool mix_by_token = false;  // some of them have weights by token
};
AttentionParameters parameters_of(const LayerSpec& spec);

bool learns_argument(const Transform& transform);

// Whether some pattern of the spec compares the positions of queries and keys; patterns that topk keeps count too.
bool compares_positions(const LayerSpec& spec);

}  // namespace fovea
