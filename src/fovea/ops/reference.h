#pragma once
#include "fovea/ops/token_call.h"

// Attention on ATen for every mechanism, dtype and device: the last of the kernels, which refuses nothing. Dense
// within a group of sequences of similar lengths. Computes in float, in double where the inputs are.
namespace fovea::ops {

// [T_q, H, D] in q's type, rows of no sequence zero.
at::Tensor reference_forward(const TokenCall& call);

// Scores and weights are computed anew: nothing is saved but the inputs.
TokenGradients reference_backward(const TokenCall& call, const at::Tensor& grad_out);

// Weights before dropout: [B, H, N_q, N_k] with the greatest lengths, zeros elsewhere.
at::Tensor reference_weights(const TokenCall& call);

}  // namespace fovea::ops
