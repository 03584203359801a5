#pragma once
#include <ATen/core/Tensor.h>

#include <span>

#include "fovea/kernels/attention/attention.h"

namespace fovea::ops::composite {

struct IndexInputs {
  at::Tensor q, k, weights;  // packed: [T_q, H, D], [T_k, D], [T_q, H]
};

// index_topk() by torch's operators, on any device. Memory: the scores of a block of queries.
at::Tensor index_topk(const IndexInputs& x, std::span<const kernels::Sequence> sequences, int64_t k_best, bool causal);

}  // namespace fovea::ops::composite
