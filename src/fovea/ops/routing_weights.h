#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "fovea/ops/routing_batch.h"

// The weights of a routed head group, by query and key.
namespace fovea::ops {

// The weights as lists; `rows` are member_rows() of the batch.
RoutedRows weight_lists(const RoutedBatch& batch, const CoreTensors& rows, const GroupCall& arguments,
                        const RoutedGroup& group);

// [B, H, N_q, N_k] with the greatest lengths, double on the CPU. Query t of the sequences is token `begin` + t of rows.
at::Tensor dense_weights(const RoutedRows& rows, const std::vector<kernels::Sequence>& sequences, int64_t begin);

}  // namespace fovea::ops
