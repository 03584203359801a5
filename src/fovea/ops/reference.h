#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "fovea/kernels/attention/attention.h"

// Attention on ATen for every mechanism, dtype and device: the last of the kernels, which refuses nothing. Dense
// within a group of sequences of similar lengths. Computes in float, in double where the inputs are.
namespace fovea::ops {

// One call. T_q, T_k tokens of all sequences, H heads, D head_dim; problem.sequences index the tokens.
struct ReferenceCall {
  kernels::AttentionProblem problem;
  kernels::RandomStream random;
  at::Tensor q, k, v;                   // [T, H, D]
  at::Tensor alpha;                     // [H], entmax(learned) only, else undefined
  std::span<const int64_t> key_tokens;  // keys_listed: for the kernels; the reference reads keys where sequences say
  double scale = 1;
};

// [T_q, H, D] in q's type, rows of no sequence zero.
at::Tensor reference_forward(const ReferenceCall& call);

struct ReferenceGradients {
  at::Tensor q, k, v;  // as the inputs
  at::Tensor alpha;    // [H] in alpha's type, or undefined
};
// Scores and weights are computed anew: nothing is saved but the inputs.
ReferenceGradients reference_backward(const ReferenceCall& call, const at::Tensor& grad_out);

// Weights before dropout: [B, H, N_q, N_k] with the greatest lengths, zeros elsewhere.
at::Tensor reference_weights(const ReferenceCall& call);

}  // namespace fovea::ops
