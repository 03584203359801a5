#include "fovea/ops/index_loss.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/kernels/call/indexer.h"
#include "fovea/kernels/indexer/index_loss.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor_for.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/no_autocast.h"

namespace fovea::ops {
namespace {

constexpr int64_t kRowStep = 16;                     // of the kernels' rows
constexpr int64_t kMostGathered = int64_t{1} << 22;  // numbers of keys that are gathered together

// Rows as the kernels read them: float32, padded with zeros.
at::Tensor kernel_rows(const at::Tensor& x) {
  const int64_t missing = (kRowStep - x.size(-1) % kRowStep) % kRowStep;
  const at::Tensor wide = x.to(at::kFloat);
  return missing == 0 ? wide.contiguous() : at::constant_pad_nd(wide, {0, missing}).contiguous();
}

// The form in which kernel rows are returned: without the padding, in the type of `like`.
at::Tensor without_padding(const at::Tensor& rows, const at::Tensor& like) {
  return rows.narrow(-1, 0, like.size(-1)).to(like.scalar_type()).contiguous();
}

void check_indices(const at::Tensor& indices, int64_t keys, std::string_view name) {
  if (indices.numel() == 0) return;
  const auto [least, greatest] = at::aminmax(indices);
  kernels::check_index_range(least.item<int64_t>(), greatest.item<int64_t>(), keys, name);
}

kernels::ChosenKeys chosen_of(const at::Tensor& indices, int64_t keys) {
  return {indices.const_data_ptr<int32_t>(), indices.size(0), indices.size(1), keys, indices.size(2)};
}

at::ScalarType target_type(const at::Tensor& q) { return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// The target of some queries [H, N, D] of one sequence, by torch's operators: [N, n].
at::Tensor target_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& indices, double scale) {
  const int64_t key_heads = k.size(0), queries = q.size(1), width = q.size(2);
  const at::Tensor missing = indices < 0, list = indices.clamp_min(0).flatten().to(at::kLong);
  const at::Tensor keys = k.index_select(1, list).view({key_heads, queries, indices.size(1), width});
  const at::Tensor groups = q.reshape({key_heads, -1, queries, width}).transpose(1, 2);
  const at::Tensor scores = at::matmul(groups, keys.transpose(2, 3)) * scale;  // [H_kv, N, H / H_kv, n]
  const at::Tensor weights =
      scores.masked_fill(missing.unsqueeze(1), -std::numeric_limits<double>::infinity()).softmax(-1);
  return weights.mean(at::IntArrayRef({0, 2})).masked_fill(missing, 0);
}

at::Tensor composite_target(const at::Tensor& q, const at::Tensor& k, const at::Tensor& indices, double scale) {
  if (k.size(2) == 0 || indices.size(2) == 0) return at::zeros(indices.sizes(), q.options().dtype(target_type(q)));
  at::Tensor out = at::empty(indices.sizes(), q.options().dtype(target_type(q)));
  const int64_t queries = q.size(2), each = indices.size(2) * (k.size(1) * q.size(3) + q.size(1));
  const int64_t step = std::max<int64_t>(1, kMostGathered / std::max<int64_t>(1, each));
  for (int64_t b = 0; b < q.size(0); ++b) {
    const at::Tensor own = q[b].to(out.scalar_type()), keys = k[b].to(out.scalar_type());
    for (int64_t first = 0; first < queries; first += step) {
      const int64_t count = std::min(step, queries - first);
      out[b]
          .narrow(0, first, count)
          .copy_(target_block(own.narrow(1, first, count), keys, indices[b].narrow(0, first, count), scale));
    }
  }
  return out;
}

}  // namespace

at::Tensor index_target(const at::Tensor& q, const at::Tensor& k, const at::Tensor& indices,
                        std::optional<double> scale) {
  const at::NoGradGuard constant;
  const NoAutocast guard;
  kernels::check_index_target({view_of(q), view_of(k), view_of(indices)});
  kernels::check_scale(scale, "index_target");
  check_indices(indices, k.size(2), "index_target");
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  if (!fits_kernels({q, k})) return composite_target(q, k, indices, factor);
  const at::Tensor queries = kernel_rows(q.transpose(1, 2)), keys = kernel_rows(k), list = indices.contiguous();
  at::Tensor out = at::empty(indices.sizes(), q.options().dtype(at::kFloat));
  kernels::IndexTarget job;
  job.q = queries.const_data_ptr<float>(), job.k = keys.const_data_ptr<float>();
  job.chosen = chosen_of(list, k.size(2)), job.weights = out.mutable_data_ptr<float>();
  job.heads = q.size(1), job.key_heads = k.size(1), job.width = queries.size(3);
  job.scale = static_cast<float>(factor);
  kernels::index_target(job, executor_for(queries.numel() * indices.size(2)));
  return out;
}

IndexLossSums index_loss(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights, const at::Tensor& indices,
                         const at::Tensor& target, bool gradients) {
  const at::NoGradGuard by_hand;
  const kernels::IndexLossViews views{view_of(q), view_of(k), view_of(weights), view_of(indices), view_of(target)};
  kernels::check_index_loss(views), kernels::check_index_loss_kernel(views);
  check_indices(indices, k.size(1), "index_loss");
  const at::Tensor queries = kernel_rows(q), keys = kernel_rows(k), list = indices.to(at::kInt).contiguous();
  const at::Tensor own_weights = weights.to(at::kFloat).contiguous(), wanted = target.to(at::kFloat).contiguous();
  kernels::IndexLoss job;
  job.q = queries.const_data_ptr<float>(), job.k = keys.const_data_ptr<float>();
  job.weights = own_weights.const_data_ptr<float>(), job.target = wanted.const_data_ptr<float>();
  job.chosen = chosen_of(list, k.size(1)), job.heads = q.size(2), job.width = queries.size(3);
  IndexLossSums sums;
  for (at::Tensor* gradient : {&sums.q, &sums.k, &sums.weights}) *gradient = at::empty({0}, queries.options());
  if (gradients) {
    sums.q = at::empty_like(queries), sums.k = at::empty_like(keys), sums.weights = at::empty_like(own_weights);
    job.grad_q = sums.q.mutable_data_ptr<float>(), job.grad_k = sums.k.mutable_data_ptr<float>();
    job.grad_weights = sums.weights.mutable_data_ptr<float>();
  }
  const kernels::IndexLossSum sum = kernels::index_loss(job, executor_for(queries.numel() * indices.size(2)));
  sums.loss = at::scalar_tensor(sum.loss, queries.options());
  sums.queries = at::scalar_tensor(static_cast<double>(sum.queries), queries.options());
  if (gradients) {
    sums.q = without_padding(sums.q, q), sums.k = without_padding(sums.k, k);
    sums.weights = sums.weights.to(weights.scalar_type());
  }
  return sums;
}

}  // namespace fovea::ops
