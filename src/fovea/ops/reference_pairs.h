#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/reference_plan.h"
#include "fovea/ops/token_call.h"

// Which pairs of a block take part. Masks are bool, [G or 1, heads or 1, queries, keys], made on the device.
namespace fovea::ops {

// A group, one of its blocks, and the call that both belong to.
struct BlockView {
  const TokenCall& call;
  const ReferenceGroup& group;
  const ReferenceBlock& block;
};

// The key positions of the block's columns, int64 [keys].
at::Tensor key_positions(const BlockView& view);

// True for the pairs that are not candidates. `given`: the lists of the call on the device, or undefined. Undefined if
// all pairs are candidates.
at::Tensor pairs_outside(const BlockView& view, const at::Tensor& given);

// True for the pairs that stay on top of the k best. Undefined without keep=.
at::Tensor pairs_kept(const BlockView& view);

}  // namespace fovea::ops
