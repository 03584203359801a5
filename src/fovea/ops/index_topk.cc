#include "fovea/ops/index_topk.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <limits>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/kernels/indexer/index_topk.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor_for.h"
#include "fovea/ops/index_topk_composite.h"
#include "fovea/ops/kernel_tensors.h"

namespace fovea::ops {
namespace {

// Sizes may be symbols, so only those are read that a rule depends on.
void check_index(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights, int64_t k_best) {
  const auto dims = q.dim();
  const bool dense = dims == 4;
  if ((dims != 3 && dims != 4) || k.dim() != dims - 1 || weights.dim() != dims - 1 || k.size(-1) != q.size(-1) ||
      weights.sizes() != q.sizes().slice(0, static_cast<size_t>(dims - 1)) || (dense && k.size(0) != q.size(0)) ||
      q.size(-1) == 0 || q.size(-2) == 0) {
    throw Error(cat("index_topk: q has shape ", shape(q), ", k ", shape(k), " and weights ", shape(weights),
                    "; expected [B, S, H, D], [B, T, D] and [B, S, H], or packed [T_q, H, D], [T_k, D] and [T_q, H]"));
  }
  const auto is_floating = [](at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
  };
  if (!is_floating(q.scalar_type()) || k.scalar_type() != q.scalar_type() ||
      (weights.scalar_type() != q.scalar_type() && weights.scalar_type() != at::kFloat) || k.device() != q.device() ||
      weights.device() != q.device()) {
    const auto of = [](const at::Tensor& x) { return cat(x.scalar_type(), " on ", x.device().str()); };
    throw Error(cat("index_topk: q is ", of(q), ", k ", of(k), " and weights ", of(weights),
                    "; expected one floating type, weights of it or float32, and one device"));
  }
  if (k_best < 1) throw Error(cat("index_topk: got k_best ", k_best, "; expected 1 or more"));
}

std::vector<kernels::Sequence> index_sequences(const at::Tensor& q, const at::Tensor& k, const IndexOptions& options) {
  if (q.dim() == 4 && (options.q_offsets || options.k_offsets)) {
    throw Error("index_topk: got offsets for dense tensors [B, S, H, D]; flatten them to [B S, H, D]");
  }
  AttentionOptions layout;
  layout.q_offsets = options.q_offsets, layout.k_offsets = options.k_offsets;
  if (q.dim() == 3) return sequences_of({q, k}, layout);
  std::vector<kernels::Sequence> sequences;
  const int64_t queries = q.size(1), keys = k.size(1);
  for (int64_t b = 0; b < q.size(0); ++b) sequences.push_back({b * queries, queries, b * keys, keys});
  return sequences;
}

// Computes index_topk() of packed tensors.
at::Tensor packed_index(const composite::IndexInputs& x, const std::vector<kernels::Sequence>& sequences,
                        int64_t k_best, bool causal) {
  if (!fits_kernels({x.q, x.k})) return composite::index_topk(x, sequences, k_best, causal);
  if (x.k.size(0) > std::numeric_limits<int32_t>::max())
    throw Error(cat("index_topk: got ", x.k.size(0), " keys; expected fewer than 2^31"));
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
  check_index(q, k, weights, k_best);
  const std::vector<kernels::Sequence> sequences = index_sequences(q, k, options);
  if (q.dim() == 3) return packed_index({q, k, weights}, sequences, k_best, options.causal);
  const at::Tensor out =
      packed_index({q.flatten(0, 1), k.flatten(0, 1), weights.flatten(0, 1)}, sequences, k_best, options.causal);
  return out.view({q.size(0), q.size(1), k_best});
}

}  // namespace fovea::ops
