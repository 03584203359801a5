#pragma once
#include "fovea/spec/attention_spec.h"

namespace fovea {

// The tensors that a layer's mechanism reads beside q, k and v: of its norm, and its transforms' learned arguments, a
// value a head: alpha of entmax(learned), sinks of sink. And those of the scale (query_scale.h), which the layer reads
// before its heads.
struct AttentionParameters {
  bool gain = false, gate = false, bias = false, alpha = false, sinks = false;
  int64_t mix_levels = 0;                              // of mixtures of clauses with learned weights
  bool mix_by_token = false;                           // some of them have weights by token
  bool scale_by_head = false, scale_by_input = false;  // s of SSMax; b and g of ASEntmax
};
AttentionParameters parameters_of(const LayerSpec& spec);

// Whether scaled queries of heads with this transform have ASEntmax's factor, not SSMax's.
bool scales_by_input(const Transform& transform);

// Whether the bias of a sigmoid is still to be set from a length.
bool lacks_bias(const AttentionSpec& spec);
bool lacks_bias(const LayerSpec& spec);
// The mechanism with -ln(length) for such biases.
LayerSpec with_bias(LayerSpec spec, int64_t length);

bool learns_argument(const Transform& transform);
// Whether the learned argument is that of a sink.
bool learns_sink(const Transform& transform);

// Whether some pattern of the spec compares the positions of queries and keys; patterns that topk keeps count too.
bool compares_positions(const LayerSpec& spec);

}  // namespace fovea
