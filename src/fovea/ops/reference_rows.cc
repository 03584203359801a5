#include "fovea/ops/reference_rows.h"

#include <ATen/ops/empty.h>
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
    wide = x.narrow(0, 0, slots).to(compute_type(x));
  }
  return wide.reshape({group.count(), side.length, x.size(1), x.size(2)}).transpose(1, 2);
}

void unpad(const at::Tensor& x, const ReferenceSide& side, at::Tensor& out) {
  const at::Tensor rows = x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
  if (side.tokens.defined()) {
    out.index_copy_(0, side.tokens, rows.index_select(0, side.slots).to(out.scalar_type()));
  } else {
    out.narrow(0, 0, rows.size(0)).copy_(rows);
  }
}

namespace {

// The head of k and v that each head reads, [H].
at::Tensor key_heads(const kernels::AttentionProblem& problem, at::Device device) {
  const at::Tensor heads = at::empty({problem.num_heads}, at::kLong);
  for (int64_t h = 0; h < problem.num_heads; ++h) heads.mutable_data_ptr<int64_t>()[h] = problem.key_head(h);
  return heads.to(device);
}

}  // namespace

at::Tensor by_query_head(const at::Tensor& x, const kernels::AttentionProblem& problem) {
  return problem.keys.any() ? x.index_select(1, key_heads(problem, x.device())) : x;
}

at::Tensor by_key_head(const at::Tensor& x, const kernels::AttentionProblem& problem) {
  if (!problem.keys.any()) return x;
  const at::Tensor sums = at::zeros({x.size(0), problem.num_key_heads(), x.size(2), x.size(3)}, x.options());
  return sums.index_add_(1, key_heads(problem, x.device()), x);
}

}  // namespace fovea::ops
