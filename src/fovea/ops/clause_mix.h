#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace fovea::ops {

// The inputs of clause_mix(). Offsets are int64 on the CPU; those of a level end with the number of tokens and contain
// the ends of the sequences and of the level before.
struct ClauseMixInputs {
  at::Tensor q, k, v;               // [T, H, D]
  at::Tensor p;                     // [L, H], from 0 to 1
  at::Tensor offsets;               // [B + 1], of the sequences
  std::vector<at::Tensor> clauses;  // of each level
};

// Whether the kernel computes these: float32 on the CPU, up to six levels.
bool fits_clause_mix(const ClauseMixInputs& inputs);

// Softmax attention mixed from all keys and from clauses, kernels/attention/cpu/clause_mix.h -> [T, H, D];
// differentiable, once, in q, k, v and p. The inputs must fit.
at::Tensor clause_mix(const ClauseMixInputs& inputs);

}  // namespace fovea::ops
