#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/reference_plan.h"

// Conversions between rows of tokens and the padded batches of the reference.
namespace fovea::ops {

// The type in which the reference computes: double for doubles, else float.
at::ScalarType compute_type(const at::Tensor& x);

// [T, H, D] -> [G, H, N, D] in the type of computation; slots without a token are zero.
at::Tensor padded(const at::Tensor& x, const ReferenceGroup& group, const ReferenceSide& side);

// The way back: rows of `x` [G, H, N, D] into `out` [T, H, D].
void unpad(const at::Tensor& x, const ReferenceSide& side, at::Tensor& out);

// Keys or values [G, H_kv, N, D] for each head of the queries, [G, H, N, D]; and what the heads give to them, summed by
// key head. The tensor itself where no heads share keys.
at::Tensor by_query_head(const at::Tensor& x, const kernels::AttentionProblem& problem);
at::Tensor by_key_head(const at::Tensor& x, const kernels::AttentionProblem& problem);

}  // namespace fovea::ops
