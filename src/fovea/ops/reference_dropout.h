#pragma once
#include "fovea/ops/reference_pairs.h"

namespace fovea::ops {

// 1 / (1 - rate) or 0 for each pair of a block, [G, heads, queries, keys]: the mask of kernels/attention/dropout.h, on
// the CPU by its functions, elsewhere by the tensors' own hashes, which give the same.
at::Tensor dropout_factors(const BlockView& view, const at::TensorOptions& options);
// dropout_factors() by the tensors' hashes, on any device.
at::Tensor hashed_dropout_factors(const BlockView& view, const at::TensorOptions& options);

}  // namespace fovea::ops
