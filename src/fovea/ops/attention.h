#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "fovea/ops/attention_call.h"

namespace fovea::ops {

// Attention of every head group of `spec` ("topk(8)", "4*local(256);4*full"), then the norm over concatenated heads.
// The layout of q, as wide as v; differentiable in q, k, v, alpha, gain, gate, bias and the terms by offset.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& spec,
                     const AttentionOptions& options);

// Weights of the reference, for analysis and tests: dense [B, H, N_q, N_k] in q's dtype, zeros outside the pairs.
at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const std::string& spec,
                             const AttentionOptions& options);

// Keeps the operator library from being dropped by the linker (--as-needed); call once at start.
void init();

}  // namespace fovea::ops
