#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/reference_plan.h"

// Between rows of tokens and the padded batches of the reference.
namespace fovea::ops {

// The type in which the reference computes: double for doubles, else float.
at::ScalarType compute_type(const at::Tensor& x);

// [T, H, D] -> [G, H, N, D] in the type of computation; slots without a token are zero.
at::Tensor padded(const at::Tensor& x, const ReferenceGroup& group, const ReferenceSide& side);

// The way back: rows of `x` [G, H, N, D] into `out` [T, H, D].
void unpad(const at::Tensor& x, const ReferenceSide& side, at::Tensor& out);

}  // namespace fovea::ops
