#include "fovea/ops/reference_select.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "fovea/ops/reference_rows.h"

namespace fovea::ops {
namespace {

// Scores for a selection, and by how much those of equal keys may differ: a product's order of additions depends on
// the place of a key.
struct RankedScores {
  at::Tensor scores, slack;  // [G, heads, queries, keys]; slack undefined: none
  at::Tensor left_out;       // bool, broadcasts to the scores: where a term by offset is minus infinity
};

// Scores in `type`, scaled after the product: scores that tie as products still tie.
RankedScores scores_of(const BlockView& view, const GroupRows& rows, at::ScalarType type, bool with_slack) {
  const auto& [call, group, block] = view;
  const at::Tensor q = block_queries(rows.q, block).to(type), k = block_keys(rows.k, block).to(type);
  RankedScores ranked{products_with_keys(q, k, block.heads).mul_(call.scale), {}, {}};
  if (with_slack) {
    const double unit = static_cast<double>(q.size(-1) + 2) * std::numeric_limits<double>::epsilon();
    const at::Tensor q_norm = at::linalg_vector_norm(q.detach(), 2, -1, true).mul_(unit * std::abs(call.scale));
    ranked.slack = products_with_keys(q_norm, at::linalg_vector_norm(k.detach(), 2, -1, true), block.heads);
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

// True where a candidate is below the k-th greatest score of its row among the candidates that compete for the k.
at::Tensor below_kth(const RankedScores& ranked, const at::Tensor& not_competing, int64_t k) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor scores = ranked.scores.detach();
  const at::Tensor masked = not_competing.defined() ? scores.masked_fill(not_competing, -infinity) : scores;
  const at::Tensor best = std::get<0>(masked.topk(std::min(k, scores.size(-1)), -1, true, /*sorted=*/false));
  const at::Tensor threshold = best.amin({-1}, true);
  // False for NaN, which so stays and reaches the output.
  return (ranked.slack.defined() ? masked + ranked.slack.detach() : masked) < threshold;
}

// Pairs that take no part: not candidates, or not selected.
at::Tensor dropped_pairs(const BlockView& view, const at::Tensor& given, const RankedScores& ranked) {
  at::Tensor outside = pairs_outside(view, given);
  if (ranked.left_out.defined()) outside = outside.defined() ? outside.logical_or(ranked.left_out) : ranked.left_out;
  if (!view.call.problem.spec.select) return outside;
  const int64_t k = view.call.problem.spec.select->k;
  at::Tensor below;
  if (const at::Tensor kept = pairs_kept(view); kept.defined()) {
    const at::Tensor rest = outside.defined() ? kept.logical_or(outside) : kept;
    below = below_kth(ranked, rest, k).logical_and_(kept.logical_not());
  } else {
    below = below_kth(ranked, outside, k);
  }
  return outside.defined() ? below.logical_or_(outside) : below;
}

}  // namespace

SelectedScores selected_scores(const BlockView& view, const GroupRows& rows) {
  const at::ScalarType type = compute_type(view.call.q);
  const bool ranks = view.call.problem.spec.select && view.call.q.device().is_cpu();
  const RankedScores ranked = scores_of(view, rows, ranks ? at::kDouble : type, ranks);
  const at::Tensor dropped = dropped_pairs(view, rows.given, ranked);
  return {ranked.scores.to(type), dropped};
}

}  // namespace fovea::ops
