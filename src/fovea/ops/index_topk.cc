#include "fovea/ops/index_topk.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "fovea/kernels/call/indexer.h"
#include "fovea/kernels/indexer/index_topk.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor_for.h"
#include "fovea/ops/index_topk_composite.h"
#include "fovea/ops/kernel_tensors.h"

namespace fovea::ops {
namespace {

kernels::IndexTopkViews views_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights,
                                 const IndexOptions& options) {
  return {view_of(q), view_of(k), view_of(weights), view_of(options.q_offsets), view_of(options.k_offsets)};
}

std::vector<kernels::Sequence> index_sequences(const kernels::IndexTopkViews& x) {
  const auto &q = x.q.sizes, &k = x.k.sizes;
  const bool packed = q.size() == 3;
  const kernels::CallSizes sizes{packed, packed ? 1 : q[0], q[packed ? 0 : 1], k[packed ? 0 : 1]};
  return kernels::read_sequences(sizes, {x.q_offsets, x.k_offsets, {}, {}, {}, {}});
}

// Computes index_topk() of packed tensors.
at::Tensor packed_index(const composite::IndexInputs& x, const std::vector<kernels::Sequence>& sequences,
                        int64_t k_best, bool causal) {
  if (!fits_kernels({x.q, x.k})) return composite::index_topk(x, sequences, k_best, causal);
  kernels::check_index_keys(x.k.size(0));
  const at::Tensor q = x.q.contiguous(), k = x.k.contiguous(), weights = x.weights.to(at::kFloat).contiguous();
  at::Tensor out = at::empty({q.size(0), k_best}, q.options().dtype(at::kInt));
  kernels::IndexTopk job;
  job.q = q.const_data_ptr(), job.k = k.const_data_ptr(), job.weights = weights.const_data_ptr<float>();
  job.dtype = q.scalar_type() == at::kFloat ? kernels::DType::kFloat32 : kernels::DType::kBFloat16;
  job.indices = out.mutable_data_ptr<int32_t>();
  job.heads = q.size(1), job.head_dim = q.size(2), job.k_best = k_best, job.causal = causal;
  job.sequences = sequences;
  kernels::index_topk(job, executor_for(q.numel() * k.size(0)));
  return out;
}

}  // namespace

at::Tensor index_topk(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights, int64_t k_best,
                      const IndexOptions& options) {
  const at::NoGradGuard constant;
  const kernels::IndexTopkViews views = views_of(q, k, weights, options);
  kernels::check_index_topk(views, k_best);
  const std::vector<kernels::Sequence> sequences = index_sequences(views);
  if (q.dim() == 3) return packed_index({q, k, weights}, sequences, k_best, options.causal);
  const at::Tensor out =
      packed_index({q.flatten(0, 1), k.flatten(0, 1), weights.flatten(0, 1)}, sequences, k_best, options.causal);
  return out.view({q.size(0), q.size(1), k_best});
}

}  // namespace fovea::ops
