#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/reference_plan.h"

// Conversions between rows of tokens, the padded batches of the reference, and their blocks.
namespace fovea::ops {

// The type in which the reference computes: double for doubles, else float.
at::ScalarType compute_type(const at::Tensor& x);

// [T, H, D] -> [G, H, N, D] in the type of computation; slots without a token are zero.
at::Tensor padded(const at::Tensor& x, const ReferenceGroup& group, const ReferenceSide& side);

// The way back: rows of `x` [G, H, N, D] into `out` [T, H, D].
void unpad(const at::Tensor& x, const ReferenceSide& side, at::Tensor& out);

// A view of the block's queries in [G, H, N_q, D], [G, heads, queries, D]; and its keys in [G, H_kv, N_k, D],
// [G, heads of keys, keys, D], a view unless the block names its keys one by one.
at::Tensor block_queries(const at::Tensor& x, const ReferenceBlock& block);
at::Tensor block_keys(const at::Tensor& x, const ReferenceBlock& block);
// Adds `x`, as block_keys() gives it, to the block's keys in `all`.
void add_to_keys(const at::Tensor& x, const ReferenceBlock& block, const at::Tensor& all);

// Products of a block, in which heads that share keys lie one behind the other, so that keys are not repeated.
// queries [G, heads, queries, D], pairs [G, heads, queries, keys], keys [G, heads of keys, keys, D].
at::Tensor products_with_keys(const at::Tensor& queries, const at::Tensor& keys, const HeadRun& run);  // pairs
at::Tensor sums_over_keys(const at::Tensor& pairs, const at::Tensor& keys, const HeadRun& run);        // like queries
// The sum over the queries of all heads that share a key, like keys.
at::Tensor sums_over_queries(const at::Tensor& pairs, const at::Tensor& queries, const HeadRun& run);

}  // namespace fovea::ops
