#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <span>

#include "fovea/kernels/call/call.h"
#include "fovea/ops/attention_call.h"
#include "fovea/spec/resolved_layer.h"

// A layer's head groups, each by a fast kernel if one accepts its problem, otherwise by the reference.
namespace fovea::ops {

struct CoreTensors {
  at::Tensor q, k, v;
};

// A call of head groups that follow one another in a layer. q, k and v have their heads and one width; tables by offset
// have the types that kernels::check_terms() expects. The options have a scale, and nothing of the norm.
struct LayerCall : AttentionOptions {
  AttentionLayerPointer owner;  // the layer, which holds the groups
  std::span<const AttentionLayer::Group> groups;
  int64_t first_head = 0;     // their first head among those of the layer
  int64_t heads_per_key = 1;  // how many heads of the layer share one head of k and v
  int64_t value_offsets = 0;  // the number of offsets for which weights are summed, from offsets.values_first on

  kernels::KeySharing keys() const { return {heads_per_key, first_head % heads_per_key}; }
};
// A call of all groups of the layer with these options.
LayerCall layer_call(AttentionOptions options, AttentionLayerPointer layer);

using WantedTerms = std::array<bool, kTermTensors.size()>;  // of their gradients

// The numbers that the kernels of all groups left for backward (kernels/call/groups.h); undefined without backward.
struct SavedTensors {
  at::Tensor floats, ints;
};

struct LayerOutput {
  at::Tensor out;   // as q; dense: a [B, N_q, H, D] buffer seen as [B, H, N_q, D], as a projection reads it
  at::Tensor sums;  // weights by offset: the layout of q, value_offsets wide, of by_query's type; undefined without
  SavedTensors saved;
};

// As the inputs; undefined where a call does not have them, or does not want them.
struct LayerGradients {
  at::Tensor q, k, v, alpha;
  TermTensors terms;
};

// The inputs of backward: gradients of out and sums; the latter may be undefined.
struct LayerCotangents {
  at::Tensor out, sums;
};

using kernels::Phase;

LayerOutput layer_forward(const CoreTensors& x, const LayerCall& call, Phase phase);
LayerGradients layer_backward(const LayerCotangents& cotangents, const CoreTensors& x, const LayerOutput& output,
                              const LayerCall& call, const WantedTerms& wanted);
// Weights of the reference, [B, H, N_q, N_k].
at::Tensor layer_weights(const CoreTensors& x, const LayerCall& call);

struct Attended {
  at::Tensor out, sums;
};
// layer_forward(), differentiable in q, k, v, alpha and the terms.
Attended attend(const CoreTensors& x, const LayerCall& call);

}  // namespace fovea::ops
