#include "fovea/ops/reference_rows.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

namespace fovea::ops {

at::ScalarType compute_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor padded(const at::Tensor& x, const ReferenceGroup& group, const ReferenceSide& side) {
  const int64_t slots = group.count() * side.length;
  at::Tensor wide;
  if (side.tokens.defined()) {
    const at::Tensor rows = x.index_select(0, side.tokens).to(compute_type(x));
    wide = at::zeros({slots, x.size(1), x.size(2)}, rows.options()).index_copy_(0, side.slots, rows);
  } else {
    wide = x.narrow(0, side.first, slots).to(compute_type(x));
  }
  return wide.reshape({group.count(), side.length, x.size(1), x.size(2)}).transpose(1, 2);
}

void unpad(const at::Tensor& x, const ReferenceSide& side, at::Tensor& out) {
  const at::Tensor rows = x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
  if (side.tokens.defined()) {
    out.index_copy_(0, side.tokens, rows.index_select(0, side.slots).to(out.scalar_type()));
  } else {
    out.narrow(0, side.first, rows.size(0)).copy_(rows);
  }
}

at::Tensor block_queries(const at::Tensor& x, const ReferenceBlock& block) {
  return x.narrow(1, block.heads.first, block.heads.count).narrow(2, block.first_query, block.queries);
}

at::Tensor block_keys(const at::Tensor& x, const ReferenceBlock& block) {
  const at::Tensor own = x.narrow(1, block.heads.first_key, block.heads.keys());
  if (block.key_places.defined()) return own.index_select(2, block.key_places);
  return own.narrow(2, block.first_key, block.keys);
}

void add_to_keys(const at::Tensor& x, const ReferenceBlock& block, const at::Tensor& all) {
  const at::Tensor own = all.narrow(1, block.heads.first_key, block.heads.keys());
  if (block.key_places.defined()) {
    // In this way the order of additions does not depend on a device's threads.
    own.index_copy_(2, block.key_places, own.index_select(2, block.key_places).add_(x));
  } else {
    own.narrow(2, block.first_key, block.keys).add_(x);
  }
}

namespace {

// [G, heads, n, D] -> [G, heads of keys, share * n, D].
at::Tensor folded(const at::Tensor& x, const HeadRun& run) {
  if (run.share == 1) return x;
  return x.reshape({x.size(0), run.keys(), run.share * x.size(2), x.size(3)});
}

// The way back, of `count` rows per head.
at::Tensor unfolded(const at::Tensor& x, const HeadRun& run, int64_t count) {
  return run.share == 1 ? x : x.reshape({x.size(0), run.count, count, x.size(3)});
}

}  // namespace

at::Tensor products_with_keys(const at::Tensor& queries, const at::Tensor& keys, const HeadRun& run) {
  return unfolded(at::matmul(folded(queries, run), keys.transpose(-1, -2)), run, queries.size(2));
}

at::Tensor sums_over_keys(const at::Tensor& pairs, const at::Tensor& keys, const HeadRun& run) {
  return unfolded(at::matmul(folded(pairs, run), keys), run, pairs.size(2));
}

at::Tensor sums_over_queries(const at::Tensor& pairs, const at::Tensor& queries, const HeadRun& run) {
  return at::matmul(folded(pairs, run).transpose(-1, -2), folded(queries, run));
}

}  // namespace fovea::ops
