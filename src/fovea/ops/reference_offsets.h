#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/reference_pairs.h"

// Terms by offset in the reference: gathered for each pair.
namespace fovea::ops {

// The terms of a group, padded, in the type of computation.
struct GroupTerms {
  at::Tensor by_query, queries;  // [G, H, N_q, count] and [G, H, N_q, D]
};
GroupTerms group_terms(const TokenCall& call, const ReferenceGroup& group);

// A block with the terms of its group.
struct OffsetView : BlockView {
  const GroupTerms& terms;
};

// The terms' sum for the scores of a block, [G, heads, queries, keys] in `type`. Undefined: no terms.
at::Tensor offset_scores(const OffsetView& view, at::ScalarType type);
// The pairs that by_head leaves out, where it is minus infinity: bool, broadcasts to the scores. Undefined: none, or
// the spec has no adaptive span, whose masks do that.
at::Tensor pairs_left_out(const BlockView& view);
// In double: how far rounding moves `added`, which offset_scores() gave; broadcasts to the scores.
at::Tensor offset_slack(const OffsetView& view, const at::Tensor& added);

// Weights [G, heads, queries, keys] summed by the offsets that the problem asks for, [G, heads, queries, count].
at::Tensor sums_by_offset(const at::Tensor& weights, const BlockView& view);
// The inverse of sums_by_offset(): for each pair its element of [G, heads, queries, count].
at::Tensor at_offsets(const at::Tensor& by_offset, const BlockView& view);

// Gradients of the terms that are wanted, summed over blocks and groups.
class OffsetGradientSums {
 public:
  OffsetGradientSums(const TokenCall& call, const WantedTerms& wanted);
  void begin(const ReferenceGroup& group);
  // grad: of the block's scores, [G, heads, queries, keys].
  void add(const OffsetView& view, const at::Tensor& grad);
  void end(const ReferenceGroup& group);
  TermTensors result() const;  // in the types of the terms

 private:
  void add_by_head(const BlockView& view, const at::Tensor& grad);
  void add_products(const OffsetView& view, const at::Tensor& grad);

  const TokenCall& call_;
  TermTensors sums_;
  GroupTerms own_;  // of the group between begin() and end()
};

}  // namespace fovea::ops
