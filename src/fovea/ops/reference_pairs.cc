#include "fovea/ops/reference_pairs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "fovea/ops/given_pairs.h"
#include "fovea/ops/reference_rows.h"

namespace fovea::ops {
namespace {

// True for the pairs between the ends of spans: 1 where one begins, -1 where it ends, and their sums.
at::Tensor pairs_in(const SpanEdges& edges, const ReferenceBlock& block) {
  const int64_t rows = edges.members * edges.heads * block.queries, width = block.keys + 1;
  const at::Tensor steps = at::zeros({rows * width}, edges.begins.options().dtype(at::kChar));
  steps.index_fill_(0, edges.begins, 1).index_fill_(0, edges.ends, -1);
  const at::Tensor inside = steps.view({rows, width}).cumsum_(1).narrow(1, 0, block.keys);
  return inside.to(at::kBool).view({edges.members, edges.heads, block.queries, block.keys});
}

// The lists of a block's queries, [G, heads of the lists, queries, count], -1 in slots without a token.
at::Tensor block_lists(const BlockView& view, const at::Tensor& given) {
  const auto& [call, group, block] = view;
  const ReferenceSide& side = group.q;
  const int64_t slots = group.count() * side.length;
  at::Tensor rows;
  if (side.tokens.defined()) {
    rows = at::ones({slots, given.size(1), given.size(2)}, given.options()).neg_();
    rows.index_copy_(0, side.slots, given.index_select(0, side.tokens));
  } else {
    rows = given.narrow(0, side.first, slots);
  }
  rows = rows.view({group.count(), side.length, given.size(1), given.size(2)}).transpose(1, 2);
  const kernels::ListHeads heads = call.problem.given.heads;
  if (heads == kernels::ListHeads::kOfKeys) rows = rows.narrow(1, block.heads.first_key, block.heads.keys());
  if (heads == kernels::ListHeads::kOfQueries) rows = rows.narrow(1, block.heads.first, block.heads.count);
  return rows.narrow(2, block.first_query, block.queries);
}

// True for the pairs that the lists name.
at::Tensor listed_pairs(const BlockView& view, const at::Tensor& given) {
  const auto& [call, group, block] = view;
  const at::Tensor lists = block_lists(view, given).to(at::kLong);
  const int64_t each = call.problem.given.block, units = (group.k.length + each - 1) / each;
  // Places left over mark a unit behind the last.
  const at::Tensor marks =
      at::zeros({lists.size(0), lists.size(1), lists.size(2), units + 1}, lists.options().dtype(at::kBool));
  marks.scatter_(3, lists.masked_fill(lists < 0, units), true);
  const at::Tensor columns = key_positions(view).floor_divide(each);
  const at::Tensor named = marks.index_select(3, columns);
  const bool of_keys = call.problem.given.heads == kernels::ListHeads::kOfKeys;
  return of_keys ? named.repeat_interleave(block.heads.share, 1) : named;
}

}  // namespace

at::Tensor key_positions(const BlockView& view) {
  const ReferenceBlock& block = view.block;
  if (block.key_places.defined()) return block.key_places;
  return at::arange(block.first_key, block.first_key + block.keys, view.group.starts.options());
}

at::Tensor pairs_outside(const BlockView& view, const at::Tensor& given) {
  at::Tensor inside;
  if (view.block.candidates) inside = pairs_in(*view.block.candidates, view.block);
  if (given.defined()) {
    const at::Tensor listed = listed_pairs(view, given);
    inside = inside.defined() ? inside.logical_and(listed) : listed;
  }
  return inside.defined() ? inside.logical_not() : inside;
}

at::Tensor pairs_kept(const BlockView& view) {
  return view.block.keep ? pairs_in(*view.block.keep, view.block) : at::Tensor();
}

}  // namespace fovea::ops
