#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/spec/rotary_angles.h"

// Rotary position embedding (Su et al. 2021). In a head of D dimensions, the pair (i, i + D / 2) turns by the angle
// position * frequency of pair i, i < D / 2: the pairs of GPT-NeoX and Llama. Angles are computed in double; their
// cosines and sines are rounded to float32. T tokens; positions [T] int64 on the CPU, from 0 to kMostRotaryPositions
// - 1. Throws an Error if D is odd or the shapes do not go together. First derivatives only where a kernel computes
// (the CPU, float32 or bfloat16).
namespace fovea::ops {

inline constexpr int64_t kMostRotaryPositions = int64_t{1} << 22;  // the table of angles holds them all

// x [T, H, D] with any strides -> the same turned, contiguous.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const RotaryAngles& angles);
// By the angles of a base.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, double base = 10000);

struct RotaryHeads {
  at::Tensor q, k, v;  // [T, H, D], [T, K, D], [T, K, D]
};

// Splits a projection, stacked [T, H + 2 K, D], into `heads` = H heads of q and K of k, both turned, and K of v. The
// fastest form for training: q and k turn in place, and backward turns their gradients while it stacks all three. So
// the results share stacked's memory, and the caller must not read stacked afterwards.
RotaryHeads rotary_heads(const at::Tensor& stacked, int64_t heads, const at::Tensor& positions,
                         const RotaryAngles& angles);
RotaryHeads rotary_heads(const at::Tensor& stacked, int64_t heads, const at::Tensor& positions, double base = 10000);

}  // namespace fovea::ops
