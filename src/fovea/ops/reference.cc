#include "fovea/ops/reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "fovea/ops/attention_layout.h"
#include "fovea/ops/reference_dropout.h"
#include "fovea/ops/reference_offsets.h"
#include "fovea/ops/reference_plan.h"
#include "fovea/ops/reference_rows.h"
#include "fovea/ops/reference_transform.h"

namespace fovea::ops {
namespace {

// A group's queries, keys and values, padded: [G, H, N_q, D] and [G, H_kv, N_k, D].
struct GroupRows {
  at::Tensor q, k, v;
  GroupTerms terms;
  at::Tensor given;  // the call's lists of pairs on the device, or undefined
};

struct SelectedScores {
  at::Tensor scores;   // [G, heads, queries, keys], in the type of computation
  at::Tensor dropped;  // bool, broadcasts to the scores: not candidates, or not selected; undefined: all take part
  at::Tensor capped;   // the scores before terms are added; undefined without a soft cap
};

// Scores for a selection, and by how much those of equal keys may differ: a product's order of additions depends on
// the place of a key.
struct RankedScores {
  at::Tensor scores, slack;  // [G, heads, queries, keys]; slack undefined: none
  at::Tensor capped;         // the same before terms are added; undefined without a soft cap
  at::Tensor left_out;       // bool, broadcasts to the scores: where a term by offset is minus infinity
};

// The derivative of capped scores: 1 - (s / c)^2.
at::Tensor cap_slope(const ScoreCap& cap, const at::Tensor& capped) {
  const at::Tensor share = capped / cap.cap;
  return (1 - share).mul_(1 + share);
}

// Scores in `type`, scaled after the product: scores that tie as products still tie.
RankedScores scores_of(const BlockView& view, const GroupRows& rows, at::ScalarType type, bool with_slack) {
  const auto& [call, group, block] = view;
  const at::Tensor q = block_queries(rows.q, block).to(type), k = block_keys(rows.k, block).to(type);
  RankedScores ranked{products_with_keys(q, k, block.heads).mul_(call.scale), {}, {}, {}};
  if (with_slack) {
    const double unit = static_cast<double>(q.size(-1) + 2) * std::numeric_limits<double>::epsilon();
    const at::Tensor q_norm = at::linalg_vector_norm(q.detach(), 2, -1, true).mul_(unit * std::abs(call.scale));
    ranked.slack = products_with_keys(q_norm, at::linalg_vector_norm(k.detach(), 2, -1, true), block.heads);
  }
  if (const std::optional<ScoreCap>& cap = call.problem.spec.cap) {
    ranked.scores = ranked.capped = at::tanh(ranked.scores / cap->cap).mul_(cap->cap);
    if (with_slack) {  // the slack of the product becomes less, and tanh and the product with c round by a few units
      const at::Tensor slope = cap_slope(*cap, ranked.capped.detach());
      const at::Tensor rounding = ranked.capped.detach().abs().mul_(8 * std::numeric_limits<double>::epsilon());
      ranked.slack = ranked.slack.mul_(slope).add_(rounding);
    }
  }
  if (call.problem.offsets.changes_scores()) {
    const OffsetView offsets{view, rows.terms};
    if (const at::Tensor added = offset_scores(offsets, type); added.defined()) {
      ranked.scores = ranked.scores + added;
      ranked.left_out = added.detach().eq(-std::numeric_limits<double>::infinity());
      if (with_slack) ranked.slack = ranked.slack + offset_slack(offsets, added.detach());
    }
  }
  if (with_slack) ranked.slack.nan_to_num_(0, 0, 0);
  return ranked;
}

// The thresholds of rows [..., keys] of scores, -inf where no candidate competes: [..., 1].
at::Tensor thresholds(const All&, const at::Tensor& scores) {
  return at::full_like(scores.narrow(-1, 0, 1), -std::numeric_limits<double>::infinity());
}
at::Tensor thresholds(const TopK& top, const at::Tensor& scores) {
  return std::get<0>(scores.topk(std::min(top.k, scores.size(-1)), -1, true, /*sorted=*/false)).amin({-1}, true);
}
at::Tensor thresholds(const TopP& top, const at::Tensor& scores) {
  const at::Tensor sorted = std::get<0>(scores.sort(-1, /*descending=*/true));
  const at::Tensor best = sorted.narrow(-1, 0, 1);
  const at::Tensor sums = sorted.sub(best).exp().masked_fill_(sorted.eq(best), 1).cumsum(-1);
  const at::Tensor fewer = sums.lt(sums.narrow(-1, -1, 1) * top.p).sum(-1, true);  // keys whose sum is not yet enough
  return sorted.gather(-1, fewer.clamp_max(scores.size(-1) - 1));
}

// True where a candidate is below the threshold of its row, which is that of the candidates that compete.
at::Tensor below_threshold(const RankedScores& ranked, const at::Tensor& not_competing, const Selection& selection) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor scores = ranked.scores.detach();
  const at::Tensor masked = not_competing.defined() ? scores.masked_fill(not_competing, -infinity) : scores;
  const at::Tensor threshold = std::visit([&](const auto& s) { return thresholds(s, masked); }, selection);
  // False for NaN, which so stays and reaches the output.
  return (ranked.slack.defined() ? masked + ranked.slack.detach() : masked) < threshold;
}

// Pairs that take no part: not candidates, or not selected.
at::Tensor dropped_pairs(const BlockView& view, const at::Tensor& given, const RankedScores& ranked) {
  at::Tensor outside = pairs_outside(view, given);
  if (ranked.left_out.defined()) outside = outside.defined() ? outside.logical_or(ranked.left_out) : ranked.left_out;
  const Selection& selection = view.call.problem.spec.selection;
  if (!selects(selection)) return outside;
  at::Tensor below;
  if (const at::Tensor kept = pairs_kept(view); kept.defined()) {
    const at::Tensor rest = outside.defined() ? kept.logical_or(outside) : kept;
    below = below_threshold(ranked, rest, selection).logical_and_(kept.logical_not());
  } else {
    below = below_threshold(ranked, outside, selection);
  }
  return outside.defined() ? below.logical_or_(outside) : below;
}

// Each pair's score; on the CPU its selection compares scores in double, where those apart by no more than rounding are
// equal.
SelectedScores selected_scores(const BlockView& view, const GroupRows& rows) {
  const at::ScalarType type = compute_type(view.call.q);
  const bool ranks = view.call.problem.spec.selects() && view.call.q.device().is_cpu();
  const RankedScores ranked = scores_of(view, rows, ranks ? at::kDouble : type, ranks);
  const at::Tensor dropped = dropped_pairs(view, rows.given, ranked);
  return {ranked.scores.to(type), dropped, ranked.capped.defined() ? ranked.capped.to(type) : at::Tensor()};
}

using kernels::Sequence;

// Values for sums in which a key without a weight takes no part: a product with zero would turn an infinity or a NaN
// into NaN.
class WeightedValues {
 public:
  explicit WeightedValues(const at::Tensor& values) : values_(values) {
    if (values.device().is_cpu()) {
      is_finite_ = at::isfinite(values).all().item<bool>();
      return;
    }
    // The answer would make a GPU wait, so the sums do without these values, and rows that weigh any become NaN.
    const at::Tensor spoilt = at::isfinite(values).logical_not();
    values_ = values.masked_fill(spoilt, 0);
    spoilt_keys_ = spoilt.any(-1, true).to(values.scalar_type());
    spoilt_places_ = spoilt.any(-2, true);
  }

  // sum_j weights_ij values_j, [G, heads, queries, D].
  at::Tensor sum(const at::Tensor& weights, const ReferenceBlock& block) const {
    const at::Tensor values = block_keys(values_, block);
    if (is_finite_) return sums_over_keys(weights, values, block.heads);
    return spoilt_keys_.defined() ? marked_sum(weights, values, block) : summed_by_row(weights, values, block.heads);
  }

 private:
  at::Tensor marked_sum(const at::Tensor& weights, const at::Tensor& values, const ReferenceBlock& block) const {
    const at::Tensor touched =
        sums_over_keys(weights.detach().ne(0).to(weights.scalar_type()), block_keys(spoilt_keys_, block), block.heads);
    const HeadRun& heads = block.heads;
    const at::Tensor places = spoilt_places_.narrow(1, heads.first_key, heads.keys()).repeat_interleave(heads.share, 1);
    return sums_over_keys(weights, values, heads)
        .masked_fill(touched.ne(0).logical_and(places), std::numeric_limits<double>::quiet_NaN());
  }

  // Each row over its own keys alone, so that infinities stay infinities.
  static at::Tensor summed_by_row(const at::Tensor& weights, const at::Tensor& values, const HeadRun& heads) {
    const at::Tensor own = heads.share == 1 ? values : values.repeat_interleave(heads.share, 1);
    at::Tensor out = at::zeros({weights.size(0), weights.size(1), weights.size(2), values.size(3)}, weights.options());
    for (int64_t i = 0; i < weights.size(2); ++i) {
      const at::Tensor row = weights.select(2, i).unsqueeze(-1);
      out.select(2, i).copy_((row * own).masked_fill_(row.eq(0), 0).sum(-2));
    }
    return out;
  }

  at::Tensor values_, spoilt_keys_, spoilt_places_;
  bool is_finite_ = false;
};

// A block's scores and weights: all that forward and backward share, and all that takes memory for each pair.
struct ComputedBlock {
  ScoreMatrix rows;
  at::Tensor weights, factors;  // [G, heads, queries, keys]; factors undefined without dropout
  at::Tensor slopes;            // of the soft cap; undefined without
  at::Tensor used() const { return factors.defined() ? weights * factors : weights; }
};

ComputedBlock compute_block(const BlockView& view, const GroupRows& rows) {
  const TokenCall& call = view.call;
  ComputedBlock block;
  auto [scores, dropped, capped] = selected_scores(view, rows);
  if (capped.defined()) block.slopes = cap_slope(*call.problem.spec.cap, capped);
  block.rows.scores = scores, block.rows.dropped = dropped;
  // All that a row selects may be left out: the row is then zeros, not NaN.
  if (const at::Tensor out = pairs_left_out(view); out.defined())
    block.rows.dropped = dropped.defined() ? dropped.logical_or(out) : out;
  // Kernels take a score of minus infinity for a key that is left out, also where the transform is not 0 there.
  const Transform& transform = call.problem.spec.transform;
  if (std::holds_alternative<Gelu>(transform) || std::holds_alternative<LeakyRelu>(transform)) {
    const at::Tensor least = scores.eq(-std::numeric_limits<double>::infinity());
    block.rows.dropped = block.rows.dropped.defined() ? block.rows.dropped.logical_or(least) : least;
  }
  if (call.alpha.defined()) {
    const HeadRun& heads = view.block.heads;
    block.rows.alpha = call.alpha.narrow(0, heads.first, heads.count).to(at::kDouble);
  }
  block.weights = transform_forward(call.problem.spec.transform, block.rows);
  if (call.problem.dropout > 0) block.factors = dropout_factors(view, block.weights.options());
  return block;
}

GroupRows group_rows(const TokenCall& call, const ReferenceGroup& group, const at::Tensor& given) {
  return {padded(call.q, group, group.q), padded(call.k, group, group.k), padded(call.v, group, group.k),
          group_terms(call, group), given};
}

// The lists of pairs, once per call.
at::Tensor given_on_device(const TokenCall& call) {
  return call.given.defined() ? call.given.to(call.q.device()) : call.given;
}

// [G, H, N, width], with the heads of a token side by side, as they are in rows of tokens.
at::Tensor zeros_of_group(const at::Tensor& like, int64_t width) {
  return at::zeros({like.size(0), like.size(2), like.size(1), width}, like.options()).transpose(1, 2);
}

// Backward of one group, block by block.
class GroupBackward {
 public:
  GroupBackward(const TokenCall& call, const ReferenceGroup& group, const GroupRows& rows)
      : call_(call),
        group_(group),
        rows_(rows),
        q_(zeros_of_group(rows.q, rows.q.size(3))),
        k_(zeros_of_group(rows.k, rows.k.size(3))),
        v_(zeros_of_group(rows.v, rows.v.size(3))) {}

  // out, sums: the group's cotangents, padded; sums may be undefined. Returns the gradient of alpha, or an undefined
  // tensor.
  at::Tensor add(const ReferenceBlock& block, const TokenCotangents& given, OffsetGradientSums& terms) {
    const BlockView view{call_, group_, block};
    const HeadRun& heads = block.heads;
    const ComputedBlock own = compute_block(view, rows_);
    const at::Tensor grad = block_queries(given.out, block);
    add_to_keys(sums_over_queries(own.used(), grad, heads), block, v_);
    at::Tensor grad_weights = products_with_keys(grad, block_keys(rows_.v, block), heads);
    if (given.sums.defined()) grad_weights = grad_weights + at_offsets(block_queries(given.sums, block), view);
    if (own.factors.defined()) grad_weights.mul_(own.factors);
    const TransformGradient inner =
        transform_backward(call_.problem.spec.transform, own.rows, own.weights, grad_weights);
    grad_weights.reset();
    const at::Tensor of_products = own.slopes.defined() ? inner.scores * own.slopes : inner.scores;
    const at::Tensor grad_q = sums_over_keys(of_products, block_keys(rows_.k, block), heads);
    block_queries(q_, block).copy_(grad_q.mul_(call_.scale));
    const at::Tensor grad_k = sums_over_queries(of_products, block_queries(rows_.q, block), heads);
    add_to_keys(grad_k.mul_(call_.scale), block, k_);
    terms.add({view, rows_.terms}, inner.scores);
    return inner.alpha;
  }

  void write(TokenGradients& grads) const {
    unpad(q_, group_.q, grads.q), unpad(k_, group_.k, grads.k), unpad(v_, group_.k, grads.v);
  }

 private:
  const TokenCall& call_;
  const ReferenceGroup& group_;
  const GroupRows& rows_;
  at::Tensor q_, k_, v_;  // [G, H, N_q, D] and [G, H_kv, N_k, D]
};

}  // namespace

TokenOutput reference_forward(const TokenCall& call) {
  const auto plan = reference_plan(call.problem, call.random, call.q.device());
  const at::Tensor given = given_on_device(call);
  TokenOutput output{at::zeros(call.q.sizes(), call.q.options()), {}};
  const int64_t sums = call.problem.offsets.sums.count;
  const at::TensorOptions float_options = call.q.options().dtype(compute_type(call.q));
  if (sums > 0) output.sums = at::zeros({call.q.size(0), call.q.size(1), sums}, float_options);
  for (const ReferenceGroup& group : plan->groups) {
    const GroupRows rows = group_rows(call, group, given);
    const WeightedValues values(rows.v);
    const at::Tensor out = zeros_of_group(rows.q, rows.q.size(3));
    const at::Tensor by_offset = sums > 0 ? zeros_of_group(rows.q, sums) : at::Tensor();
    for (const ReferenceBlock& block : group.blocks) {
      const BlockView view{call, group, block};
      const at::Tensor used = compute_block(view, rows).used();
      block_queries(out, block).copy_(values.sum(used, block));
      if (sums > 0) block_queries(by_offset, block).copy_(sums_by_offset(used, view));
    }
    unpad(out, group.q, output.out);
    if (sums > 0) unpad(by_offset, group.q, output.sums);
  }
  return output;
}

TokenGradients reference_backward(const TokenCall& call, const TokenCotangents& given, const WantedTerms& wanted) {
  const auto plan = reference_plan(call.problem, call.random, call.q.device());
  const at::Tensor lists = given_on_device(call);
  TokenGradients grads{rows_like(call.q, call.q.options()).zero_(),
                       rows_like(call.k, call.k.options()).zero_(),
                       rows_like(call.v, call.v.options()).zero_(),
                       {},
                       {}};
  OffsetGradientSums terms(call, wanted);
  at::Tensor grad_alpha;
  if (call.alpha.defined()) grad_alpha = at::zeros(call.alpha.sizes(), call.alpha.options().dtype(at::kDouble));
  for (const ReferenceGroup& group : plan->groups) {
    const GroupRows rows = group_rows(call, group, lists);
    const TokenCotangents own{padded(given.out, group, group.q),
                              given.sums.defined() ? padded(given.sums, group, group.q) : given.sums};
    terms.begin(group);
    GroupBackward backward(call, group, rows);
    for (const ReferenceBlock& block : group.blocks) {
      const at::Tensor alpha = backward.add(block, own, terms);
      if (alpha.defined()) grad_alpha.narrow(0, block.heads.first, block.heads.count).add_(alpha);
    }
    backward.write(grads);
    terms.end(group);
  }
  grads.terms = terms.result();
  if (grad_alpha.defined()) grads.alpha = grad_alpha.to(call.alpha.scalar_type());
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
  const at::Tensor lists = given_on_device(call);
  for (const ReferenceGroup& group : plan->groups) {
    const GroupRows rows = group_rows(call, group, lists);
    for (const ReferenceBlock& block : group.blocks) {
      const BlockView view{call, group, block};
      const at::Tensor weights = compute_block(view, rows).weights.to(all.scalar_type()), columns = key_positions(view);
      for (int64_t g = 0; g < group.count(); ++g) {
        const at::Tensor own = all.select(0, place.at(group.members[static_cast<size_t>(g)].q_begin))
                                   .narrow(0, block.heads.first, block.heads.count);
        own.narrow(1, block.first_query, block.queries).index_copy_(2, columns, weights[g]);
      }
    }
  }
  return all;
}

}  // namespace fovea::ops
