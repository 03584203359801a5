#include "fovea/ops/index_topk_composite.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <limits>

#include "fovea/ops/no_autocast.h"

namespace fovea::ops::composite {
namespace {

constexpr int64_t kMostIndexScores = int64_t{1} << 24;  // of all heads, computed together

// Scores [N, keys] of some queries; -infinity where a query does not see the key, and nowhere else.
at::Tensor block_scores(const IndexInputs& x, int64_t first_limit, bool causal) {
  const auto type = x.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor dots = at::matmul(x.q.to(type), x.k.to(type).t()).relu();  // [N, H, keys]
  const double infinity = std::numeric_limits<double>::infinity();
  const double lowest =
      type == at::kDouble ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
  const at::Tensor scores = at::nan_to_num((dots * x.weights.to(type).unsqueeze(2)).sum(1), infinity, infinity, lowest);
  if (!causal) return scores;
  const auto integers = x.q.options().dtype(at::kLong);
  const at::Tensor limits = at::arange(first_limit, first_limit + x.q.size(0), integers).unsqueeze(1);
  return scores.masked_fill(at::arange(x.k.size(0), integers) >= limits, -infinity);
}

// The best columns of each row, ascending, -1 behind them.
at::Tensor best_columns(const at::Tensor& scores, int64_t k_best) {
  const int64_t most = std::min(k_best, scores.size(1)), none = scores.size(1);
  const auto [values, columns] = at::sort(scores, /*stable=*/true, 1, /*descending=*/true);
  const at::Tensor hidden = values.narrow(1, 0, most) == -std::numeric_limits<double>::infinity();
  at::Tensor best = std::get<0>(at::sort(columns.narrow(1, 0, most).masked_fill(hidden, none), 1));
  best = best.masked_fill(best == none, -1);
  return at::constant_pad_nd(best, {0, k_best - most}, -1).to(at::kInt);
}

}  // namespace

at::Tensor index_topk(const IndexInputs& x, std::span<const kernels::Sequence> sequences, int64_t k_best, bool causal) {
  const NoAutocast guard;
  at::Tensor out = at::full({x.q.size(0), k_best}, -1, x.q.options().dtype(at::kInt));
  for (const kernels::Sequence& s : sequences) {
    if (s.k_length == 0) continue;
    const at::Tensor k = x.k.narrow(0, s.k_begin, s.k_length);
    const int64_t step = std::max<int64_t>(1, kMostIndexScores / (s.k_length * x.q.size(1)));
    for (int64_t first = 0; first < s.q_length; first += step) {
      const int64_t count = std::min(step, s.q_length - first), begin = s.q_begin + first;
      const IndexInputs block{x.q.narrow(0, begin, count), k, x.weights.narrow(0, begin, count)};
      const at::Tensor scores = block_scores(block, first + 1 + s.k_length - s.q_length, causal);
      out.narrow(0, begin, count).copy_(best_columns(scores, k_best));
    }
  }
  return out;
}

}  // namespace fovea::ops::composite
