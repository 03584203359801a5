#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "fovea/kernels/indexer/block_topk.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/spec/attention_spec.h"

// The choice of blocks of keys by blocktopk(b,k) (spec/attention_spec.h).
namespace fovea::ops {

// Returns the lists of a single head group for PairLists with by_head: int32 in the layout of q, [B, H, N_q, n]
// or [T_q, H, n]. Scores are float32 sums. No derivative flows through the choice.
at::Tensor chosen_blocks(const QueryKey& x, const LayerCall& call, const BlockChoice& choice);

// Rows [T, H, D] of float32 or bfloat16 on the CPU as kernels read them, without a copy; and their type.
kernels::Rows<const void> rows_to_read(const at::Tensor& rows);
kernels::DType type_to_read(const at::Tensor& rows);
bool may_read(const at::Tensor& rows);  // they are such rows

kernels::BlockScore score_of(const BlockChoice& choice);
// Computes [T_q, H, n] int32 of a job. T_q = tokens.
at::Tensor listed_blocks(const kernels::BlockTopk& job, int64_t tokens);

}  // namespace fovea::ops
