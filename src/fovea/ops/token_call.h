#pragma once
#include <ATen/core/Tensor.h>

#include <span>

#include "fovea/kernels/attention/attention.h"
#include "fovea/ops/attention_core.h"

// One call by tokens, whatever the layout it came in, for the kernels and the reference.
namespace fovea::ops {

// T_q, T_k tokens of all sequences, H heads, D head_dim; problem.sequences index the tokens. The reference takes one
// head group, whose spec the problem has.
struct TokenCall {
  kernels::AttentionProblem problem;
  kernels::RandomStream random;
  at::Tensor q, k, v;                   // [T, H, D]
  at::Tensor alpha;                     // [H], what transforms learn; undefined if no head's does
  std::span<const int64_t> key_tokens;  // keys_listed: for the kernels; the reference reads keys where sequences say
  double scale = 1;
  TermTensors terms;  // by_query and queries [T_q, H, count or D]
  KeyScreen screen;   // rows undefined: none
  at::Tensor given;   // lists of pairs, as given_lists() makes them, or undefined
};

struct TokenOutput {
  at::Tensor out, sums;  // [T_q, H, D] and [T_q, H, count], undefined if the problem asks for no sums
};
using TokenCotangents = TokenOutput;  // of these; sums may be undefined

struct TokenGradients {
  at::Tensor q, k, v;  // as the inputs
  at::Tensor alpha;    // [H] in alpha's type, or undefined
  TermTensors terms;   // as the inputs; undefined if not wanted
};

}  // namespace fovea::ops
