#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "fovea/ops/attention_call.h"
#include "fovea/spec/resolved_layer.h"

namespace fovea::ops {

// Attention of every head group of the layer, then the norm over concatenated heads. The layout of q, as wide as v;
// differentiable in q, k, v, alpha, gain, gate, bias and the terms by offset. Throws an Error if inputs do not fit.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionLayerPointer layer,
                     const AttentionOptions& options);
// Takes the layer from a text ("topk(8)", "4*local(256);4*full"), which is parsed once.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& spec,
                     const AttentionOptions& options);

// Weights of the reference, for analysis and tests: dense [B, H, N_q, N_k] in q's dtype, zeros outside the pairs.
at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, AttentionLayerPointer layer,
                             const AttentionOptions& options);
at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const std::string& spec,
                             const AttentionOptions& options);

}  // namespace fovea::ops
