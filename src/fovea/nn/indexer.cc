#include "fovea/nn/indexer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "fovea/nn/pass_extras.h"
#include "fovea/ops/index_loss.h"

namespace fovea::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::string_view kLossNote = "index-loss";

// The sum of the losses of one sequence's queries, and how many of them count (ops/index_loss.h). The gradients are
// computed at once, because their inputs, the gathered keys, are not kept.
struct LossSum : torch::autograd::Function<LossSum> {
  struct Fixed {
    at::Tensor indices, target;
  };
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& weights, const Fixed& fixed) {
    const ops::IndexLossSums sums = ops::index_loss(q, k, weights, fixed.indices, fixed.target, true);
    ctx->save_for_backward({sums.q, sums.k, sums.weights});
    ctx->mark_non_differentiable({sums.queries});
    return {sums.loss, sums.queries};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list out;
    for (const at::Tensor& saved : ctx->get_saved_variables()) out.push_back(saved * grads[0].to(saved.scalar_type()));
    out.emplace_back();
    return out;
  }
};

// Tensors that the kernel of the loss reads.
at::Tensor readable(const at::Tensor& x) {
  const bool has_type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  return has_type && x.device().is_cpu() ? x : x.to(at::kCPU, at::kFloat);
}

std::shared_ptr<Linear> projection(int64_t in, int64_t out, bool has_bias, const InitScope& scope) {
  return std::make_shared<Linear>(Linear::Shape{in, out, 0, has_bias}, scope);
}

// [W, n] with rows near orthonormal, or with columns that are if there are fewer of them: products of what it projects
// are near those of its inputs.
at::Tensor sketch(int64_t width, int64_t n, const InitScope& scope) {
  const at::Tensor drawn = normal_tensor({std::max(width, n), std::min(width, n)}, 1, scope);
  const at::Tensor basis = std::get<0>(at::linalg_qr(drawn));
  const double scale = std::sqrt(std::max(1.0, static_cast<double>(n) / static_cast<double>(width)));
  return (n >= width ? basis.t() : basis) * scale;
}

}  // namespace

Indexer::Indexer(const Shape& shape, const IndexerConfig& config, const InitScope& scope)
    : heads_(index_heads_of(config, shape.heads)), candidates_(config.index_candidates) {
  const int64_t width = config.index_width, of_queries = shape.heads * shape.head_dim;
  const int64_t of_keys = shape.key_heads * shape.head_dim;
  query_ = register_module("query", projection(of_queries, heads_ * width, false, scope / "query"));
  key_ = register_module("key", projection(of_keys, width, false, scope / "key"));
  weights_ = register_module("weights", projection(of_queries, heads_, true, scope / "weights"));
  if (scope.blank()) return;
  const at::NoGradGuard initial;
  // A head of the indexer has the products of as many heads of the attention as the others, of which each meets the
  // part of the sketch that its own key head has.
  const at::Tensor keys = sketch(width, of_keys, scope / "sketch");
  const at::Tensor query = at::zeros({heads_, width, shape.heads, shape.head_dim});
  for (int64_t h = 0; h < shape.heads; ++h) {
    const int64_t own = h * shape.key_heads / shape.heads;
    query[h * heads_ / shape.heads].select(1, h).copy_(keys.narrow(1, own * shape.head_dim, shape.head_dim));
  }
  key_->weight.copy_(keys);
  query_->weight.copy_(query.view({heads_ * width, of_queries}));
  weights_->bias.fill_(1 / std::sqrt(static_cast<double>(shape.head_dim)));
}

Indexer::Queries Indexer::queries(const at::Tensor& q) const {
  const at::Tensor rows = q.detach().flatten(1);
  return {(*query_)(rows).view({q.size(0), heads_, -1}), (*weights_)(rows)};
}

at::Tensor Indexer::keys(const at::Tensor& k) const { return (*key_)(k.detach().flatten(1)); }

at::Tensor Indexer::choose(const Pairs& pairs, int64_t count) const {
  const at::NoGradGuard constant;
  return choose_among(pairs.q, keys(pairs.k), pairs.options, count);
}

at::Tensor Indexer::choose_among(const at::Tensor& q, const at::Tensor& keys, const ops::IndexOptions& options,
                                 int64_t count) const {
  const at::NoGradGuard constant;
  const Queries own = queries(q);
  return ops::index_topk(own.q, keys, own.weights, count, options);
}

at::Tensor Indexer::loss(const Pairs& pairs, int64_t count) const {
  const at::Tensor &q_offsets = *pairs.options.q_offsets, &k_offsets = *pairs.options.k_offsets;
  const auto *q_bounds = q_offsets.const_data_ptr<int64_t>(), *k_bounds = k_offsets.const_data_ptr<int64_t>();
  const at::Tensor q = pairs.q.detach(), k = pairs.k.detach();
  const Queries own = queries(q);
  const at::Tensor own_keys = keys(k);
  int64_t most = 0;  // keys of a sequence
  for (int64_t b = 0; b + 1 < k_offsets.numel(); ++b) most = std::max(most, k_bounds[b + 1] - k_bounds[b]);
  const int64_t looked_at = std::max<int64_t>(std::min(count * candidates_, most), 1);
  const at::Tensor lists = choose_among(q, own_keys.detach(), pairs.options, looked_at);
  const at::Tensor index_q = readable(own.q), index_k = readable(own_keys), weights = readable(own.weights);
  at::Tensor sum, counted;
  for (int64_t b = 0; b + 1 < q_offsets.numel(); ++b) {
    const auto queries_of = [&](const at::Tensor& x) { return x.slice(0, q_bounds[b], q_bounds[b + 1]).unsqueeze(0); };
    const auto keys_of = [&](const at::Tensor& x) { return x.slice(0, k_bounds[b], k_bounds[b + 1]).unsqueeze(0); };
    if (q_bounds[b] == q_bounds[b + 1] || k_bounds[b] == k_bounds[b + 1]) continue;
    const at::Tensor list = queries_of(lists);
    const at::Tensor target = ops::index_target(queries_of(q).transpose(1, 2), keys_of(k).transpose(1, 2), list);
    const variable_list sums = LossSum::apply(queries_of(index_q), keys_of(index_k), queries_of(weights),
                                              LossSum::Fixed{list.to(at::kCPU), target.to(at::kCPU, at::kFloat)});
    sum = sum.defined() ? sum + sums[0] : sums[0];
    counted = counted.defined() ? counted + sums[1] : sums[1];
  }
  return sum.defined() ? sum / counted.clamp_min(1) : sum;
}

void Indexer::report(const Pairs& pairs, int64_t count, const ForwardContext& context) const {
  if (context.extras == nullptr || !context.training) return;
  const at::Tensor own = loss(pairs, count);
  if (!own.defined()) return;
  context.extras->add_note(kLossNote, own.item<double>());
  context.extras->add_loss(own.to(pairs.q.device()));
}

int64_t indexed_keys(const LayerSpec& mechanism) {
  const IndexedKeys* indexed = mechanism.front().spec.indexed();
  return indexed == nullptr ? 0 : indexed->count;
}

}  // namespace fovea::nn
