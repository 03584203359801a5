#pragma once
#include "fovea/ops/token_call.h"

// Attention on ATen for every mechanism, dtype and device: the last of the kernels, which refuses nothing. Dense
// within a group of sequences of similar lengths. Computes in float, in double where the inputs are.
namespace fovea::ops {

// In q's type, rows of no sequence zero.
TokenOutput reference_forward(const TokenCall& call);

// Scores and weights are computed again: nothing is saved except the inputs.
TokenGradients reference_backward(const TokenCall& call, const TokenCotangents& given, const WantedTerms& wanted);

// Weights before dropout: [B, H, N_q, N_k] with the greatest lengths, zeros elsewhere.
at::Tensor reference_weights(const TokenCall& call);

}  // namespace fovea::ops
