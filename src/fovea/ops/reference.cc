#include "fovea/ops/reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "fovea/kernels/attention/dropout.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/reference_offsets.h"
#include "fovea/ops/reference_plan.h"
#include "fovea/ops/reference_rows.h"
#include "fovea/ops/reference_transform.h"
#include "fovea/ops/transform_function.h"

namespace fovea::ops {
namespace {

using kernels::Sequence;

// Scores for a selection, and by how much those of equal keys may differ: a product's order of additions depends on
// the place of a key.
struct RankedScores {
  at::Tensor scores, slack;  // [G, H, N_q, N_k]; slack undefined: none
};

// In double, where two scores that are apart by no more than rounding are equal ones.
RankedScores ranked_scores(const TokenCall& call, const ReferenceGroup& plan, const at::Tensor& q,
                           const at::Tensor& k) {
  const at::Tensor wide_q = q.to(at::kDouble), wide_k = k.to(at::kDouble);
  const double unit = static_cast<double>(q.size(-1) + 2) * std::numeric_limits<double>::epsilon();
  const at::Tensor q_norm = at::linalg_vector_norm(wide_q, 2, -1, true);
  const at::Tensor k_norm = at::linalg_vector_norm(wide_k, 2, -1, true).transpose(-1, -2);
  at::Tensor slack = at::matmul(q_norm.mul(unit * std::abs(call.scale)), k_norm);
  const at::Tensor products = at::matmul(wide_q, wide_k.transpose(-1, -2)).mul_(call.scale);
  if (!call.problem.offsets.changes_scores()) return {products, slack.nan_to_num_(0, 0, 0)};
  const at::Tensor added = offset_scores(call, plan, at::kDouble);
  if (!added.defined()) return {products, slack.nan_to_num_(0, 0, 0)};
  slack = slack + offset_slack(call, plan);
  return {products + added, slack.nan_to_num_(0, 0, 0)};
}

// True where a candidate is below the k-th greatest score of its row among the candidates that compete for the k.
at::Tensor below_kth(const RankedScores& ranked, const at::Tensor& not_competing, int64_t k) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor& scores = ranked.scores;
  const at::Tensor masked = not_competing.defined() ? scores.masked_fill(not_competing, -infinity) : scores;
  const at::Tensor best = std::get<0>(masked.topk(std::min(k, scores.size(-1)), -1, true, /*sorted=*/false));
  // False for NaN, which so stays and reaches the output.
  return (ranked.slack.defined() ? masked + ranked.slack : masked) < best.amin({-1}, true);
}

// Pairs that are not candidates.
at::Tensor outside_of(const TokenCall& call, const ReferenceGroup& group) {
  if (!call.given.defined()) return group.outside;
  const at::Tensor unlisted =
      unlisted_pairs(call.given, call.problem, {group.members, group.q.length, group.k.length}).to(call.q.device());
  return group.outside.defined() ? group.outside.logical_or(unlisted) : unlisted;
}

// Pairs that take no part: not candidates, or not selected.
at::Tensor dropped_pairs(const TokenCall& call, const ReferenceGroup& group, const RankedScores& scores) {
  const at::Tensor outside = outside_of(call, group);
  if (!call.problem.spec.select) return outside;
  const int64_t k = call.problem.spec.select->k;
  if (!group.keep.defined()) {
    const at::Tensor below = below_kth(scores, outside, k);
    return outside.defined() ? below.logical_or(outside) : below;
  }
  const at::Tensor rest = outside.defined() ? group.keep.logical_or(outside) : group.keep;
  const at::Tensor lost = below_kth(scores, rest, k).logical_and_(group.keep.logical_not());
  return outside.defined() ? lost.logical_or(outside) : lost;
}

// 1 / (1 - rate) or 0 for every pair, [G, H, N_q, N_k]: the mask of kernels/attention/dropout.h.
at::Tensor dropout_factors(const TokenCall& call, const ReferenceGroup& group, const at::TensorOptions& options) {
  const int64_t heads = call.problem.num_heads;
  const float rate = call.problem.dropout;
  at::Tensor factors = at::zeros({group.count(), heads, group.q.length, group.k.length}, at::kFloat);
  float* out = factors.data_ptr<float>();
  const uint32_t threshold = kernels::dropout_threshold(rate);
  const float survivor = kernels::dropout_scale(rate);
  for (int64_t g = 0; g < group.count(); ++g) {
    const Sequence& s = group.members[static_cast<size_t>(g)];
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < s.q_length; ++i) {
        const uint32_t key =
            kernels::dropout_row_key(call.random.dropout_key, call.random.first_head + h, s.q_begin + i);
        float* row = out + ((g * heads + h) * group.q.length + i) * group.k.length;
        for (int64_t j = 0; j < s.k_length; ++j) {
          row[j] = kernels::dropout_keeps(key, static_cast<uint32_t>(j), threshold) ? survivor : 0.0F;
        }
      }
    }
  }
  return factors.to(options);
}

// sum_j weights_ij values_j. A product with zero turns infinities and NaN of keys without a weight into NaN, so values
// that hold any are summed row by row over the others alone. Where all pairs take part a GPU is not made to wait for
// the answer: there they reach all queries of their sequence.
at::Tensor weighted_sum(const at::Tensor& weights, const at::Tensor& dropped, const at::Tensor& values) {
  const bool asks = dropped.defined() || values.device().is_cpu();
  if (!asks || at::isfinite(values).all().item<bool>()) return at::matmul(weights, values);
  at::Tensor out = at::zeros({weights.size(0), weights.size(1), weights.size(2), values.size(3)}, weights.options());
  for (int64_t i = 0; i < weights.size(2); ++i) {
    const at::Tensor row = weights.select(2, i).unsqueeze(-1);
    out.select(2, i).copy_((row * values).masked_fill_(row.eq(0), 0).sum(-2));
  }
  return out;
}

// One group with everything that forward and backward share.
struct ComputedGroup {
  at::Tensor q, k, v;  // [G, H, N, D]
  ScoreMatrix rows;
  at::Tensor weights, factors;  // [G, H, N_q, N_k]; factors undefined without dropout
  at::Tensor used() const { return factors.defined() ? weights * factors : weights; }
};

ComputedGroup compute_group(const TokenCall& call, const ReferenceGroup& plan) {
  ComputedGroup group;
  group.q = padded(call.q, plan, plan.q);
  // Beside scores of all pairs, rows for every head take little.
  group.k = by_query_head(padded(call.k, plan, plan.k), call.problem);
  group.v = by_query_head(padded(call.v, plan, plan.k), call.problem);
  if (call.problem.spec.select && call.q.device().is_cpu()) {
    const RankedScores ranked = ranked_scores(call, plan, group.q, group.k);
    group.rows.scores = ranked.scores.to(compute_type(call.q));
    group.rows.dropped = dropped_pairs(call, plan, ranked);
  } else {
    // Scaled after the product: scores that tie as products still tie.
    group.rows.scores = at::matmul(group.q, group.k.transpose(-1, -2)).mul_(call.scale);
    if (call.problem.offsets.changes_scores()) {
      const at::Tensor added = offset_scores(call, plan, compute_type(call.q));
      if (added.defined()) group.rows.scores = group.rows.scores + added;
    }
    group.rows.dropped = dropped_pairs(call, plan, {group.rows.scores, {}});
  }
  if (const at::Tensor ramp = ramp_scores(call, plan, compute_type(call.q)); ramp.defined())
    group.rows.scores = group.rows.scores + ramp;
  // All that a row selects may be left out: the row is then zeros, not NaN.
  if (const at::Tensor out = pairs_left_out(call, plan); out.defined())
    group.rows.dropped = group.rows.dropped.defined() ? group.rows.dropped.logical_or(out) : out;
  if (call.alpha.defined()) group.rows.alpha = call.alpha.to(at::kDouble);
  const Transform& transform = call.problem.spec.transform;
  const bool recorded = group.rows.scores.requires_grad();  // second_order.h
  group.weights = recorded ? differentiable_transform(transform, group.rows) : transform_forward(transform, group.rows);
  if (call.problem.dropout > 0) group.factors = dropout_factors(call, plan, group.weights.options());
  return group;
}

}  // namespace

TokenOutput reference_forward(const TokenCall& call) {
  const auto plan = reference_plan(call.problem, call.random, call.q.device());
  TokenOutput output{at::zeros(call.q.sizes(), call.q.options()), {}};
  const int64_t sums = call.problem.offsets.sums.count;
  const at::TensorOptions float_options = call.q.options().dtype(compute_type(call.q));
  if (sums > 0) output.sums = at::zeros({call.q.size(0), call.q.size(1), sums}, float_options);
  for (const ReferenceGroup& g : plan->groups) {
    const ComputedGroup group = compute_group(call, g);
    unpad(weighted_sum(group.used(), group.rows.dropped, group.v), g.q, output.out);
    if (sums > 0) unpad(sums_by_offset(group.used(), g, call.problem), g.q, output.sums);
  }
  return output;
}

TokenGradients reference_backward(const TokenCall& call, const TokenCotangents& given, const WantedTerms& wanted) {
  const auto plan = reference_plan(call.problem, call.random, call.q.device());
  TokenGradients grads{rows_like(call.q, call.q.options()).zero_(),
                       rows_like(call.k, call.k.options()).zero_(),
                       rows_like(call.v, call.v.options()).zero_(),
                       {},
                       {}};
  OffsetGradientSums terms(call, wanted);
  at::Tensor grad_alpha;
  for (const ReferenceGroup& g : plan->groups) {
    const ComputedGroup group = compute_group(call, g);
    const at::Tensor grad = padded(given.out, g, g.q);
    unpad(by_key_head(at::matmul(group.used().transpose(-1, -2), grad), call.problem), g.k, grads.v);
    at::Tensor grad_weights = at::matmul(grad, group.v.transpose(-1, -2));
    if (given.sums.defined()) grad_weights = grad_weights + at_offsets(padded(given.sums, g, g.q), g, call.problem);
    if (group.factors.defined()) grad_weights.mul_(group.factors);
    const TransformGradient inner =
        transform_backward(call.problem.spec.transform, group.rows, group.weights, grad_weights);
    unpad(at::matmul(inner.scores, group.k).mul_(call.scale), g.q, grads.q);
    const at::Tensor grad_k = at::matmul(inner.scores.transpose(-1, -2), group.q).mul_(call.scale);
    unpad(by_key_head(grad_k, call.problem), g.k, grads.k);
    terms.add(g, inner.scores);
    if (inner.alpha.defined()) grad_alpha = grad_alpha.defined() ? grad_alpha + inner.alpha : inner.alpha;
  }
  grads.terms = terms.result();
  if (call.alpha.defined()) {
    grads.alpha = grad_alpha.defined() ? grad_alpha.to(call.alpha.scalar_type())
                                       : at::zeros(call.alpha.sizes(), call.alpha.options());
  }
  return grads;
}

at::Tensor reference_weights(const TokenCall& given) {
  TokenCall call = given;
  call.problem.dropout = 0;
  const std::vector<Sequence>& sequences = call.problem.sequences;
  int64_t queries = 0, keys = 0;
  std::map<int64_t, int64_t> place;  // of the sequence whose queries begin there
  for (size_t b = 0; b < sequences.size(); ++b) {
    const Sequence& s = sequences[b];
    queries = std::max(queries, s.q_length), keys = std::max(keys, s.k_length);
    if (s.q_length > 0) place[s.q_begin] = static_cast<int64_t>(b);
  }
  at::Tensor all = at::zeros({std::ssize(sequences), call.problem.num_heads, queries, keys}, call.q.options());
  const auto plan = reference_plan(call.problem, call.random, call.q.device());
  for (const ReferenceGroup& group : plan->groups) {
    const at::Tensor weights = compute_group(call, group).weights;
    for (int64_t g = 0; g < group.count(); ++g) {
      const Sequence& s = group.members[static_cast<size_t>(g)];
      const auto own = [&](const at::Tensor& x, int64_t b) {
        return x.select(0, b).narrow(1, 0, s.q_length).narrow(2, 0, s.k_length);
      };
      own(all, place.at(s.q_begin)).copy_(own(weights, g));
    }
  }
  return all;
}

}  // namespace fovea::ops
