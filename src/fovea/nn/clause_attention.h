#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/nn/forward_context.h"
#include "fovea/ops/attention.h"
#include "fovea/spec/attention_spec.h"

// Attention within clauses and its mixture with attention to all keys (spec/attention_spec.h). A clause is attended
// to as a sequence of its own, so every kernel serves.
namespace fovea::nn {

bool has_clauses(const LayerSpec& spec);

// Heads [first, first + count) of a layer, which share a mechanism.
struct ClauseHeads {
  int64_t first = 0, count = 0;
  std::string part;  // the mechanism of each part, without a norm
  std::optional<ClauseAttention> clauses;
};
std::vector<ClauseHeads> clause_heads(const LayerSpec& spec);

struct ClauseInputs {
  at::Tensor q, k, v;      // [T, H, D]
  at::Tensor offsets;      // [B + 1]
  at::Tensor probability;  // p of each level, [L, H, 1] or [L, T, H, 1]; undefined without a learned mixture
  const Clauses* clauses;
};

// Returns [T, H, D] before the layer's norm. `options` holds what the parts share.
at::Tensor attend_to_clauses(const std::vector<ClauseHeads>& heads, const ClauseInputs& inputs,
                             const ops::AttentionOptions& options);

// The weights of the same, dense [B, H, N, N], by the reference.
at::Tensor clause_weights(const std::vector<ClauseHeads>& heads, const ClauseInputs& inputs,
                          const ops::AttentionOptions& options);

}  // namespace fovea::nn
