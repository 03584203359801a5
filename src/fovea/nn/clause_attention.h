#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/init.h"
#include "fovea/ops/attention.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/resolved_layer.h"

// Attention within clauses and its mixture with attention to all keys (spec/attention_spec.h). A clause is attended
// to as a sequence of its own, so every kernel serves.
namespace fovea::nn {

bool has_clauses(const LayerSpec& spec);

// Heads [first, first + count) of a layer, which share a mechanism.
struct ClauseHeads {
  int64_t first = 0, count = 0;
  AttentionLayerPointer part;  // the mechanism of each part, without a norm
  std::optional<ClauseAttention> clauses;
};
std::vector<ClauseHeads> clause_heads(const LayerSpec& spec);

// The parameters of learned mixtures: clause_mix [L, H] for the L levels, where p = sigmoid(clause_mix), and
// clause_mix_weight [L H, M] for `token`, whose product with the layer's input is added before the sigmoid.
class ClauseMixture {
 public:
  ClauseMixture() = default;
  // Registers what the mechanism needs with `owner`, an attention of H heads and width M.
  struct Shape {
    int64_t heads = 0, width = 0;
  };
  ClauseMixture(torch::nn::Module& owner, const AttentionParameters& needs, const Shape& shape, const InitScope& scope);

  bool reads_input() const { return weight_.defined(); }
  // input [T, M] -> p of each level, [L, H, 1] or [L, T, H, 1]; undefined without a learned mixture.
  at::Tensor probability(const at::Tensor& input) const;
  // The name of what a mechanism needs and this mixture does not have; "" if nothing.
  std::string missing(const AttentionParameters& needs) const;

 private:
  at::Tensor mix_, weight_;
};

struct ClauseInputs {
  at::Tensor q, k, v;      // [T, H, D]
  at::Tensor offsets;      // [B + 1]
  at::Tensor probability;  // ClauseMixture::probability()
  const Clauses* clauses;
};

// Returns [T, H, D] before the layer's norm. `options` holds what the parts share.
at::Tensor attend_to_clauses(const std::vector<ClauseHeads>& heads, const ClauseInputs& inputs,
                             const ops::AttentionOptions& options);

// The weights of the same, dense [B, H, N, N], by the reference.
at::Tensor clause_weights(const std::vector<ClauseHeads>& heads, const ClauseInputs& inputs,
                          const ops::AttentionOptions& options);

}  // namespace fovea::nn
