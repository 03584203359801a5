#include "fovea/analysis/row_measures.h"

#include <cmath>
#include <limits>

namespace fovea::analysis {

void RowSums::add(std::span<const float> row, int64_t underflow_zeros, const QueryWeights& query) {
  ++rows;
  pairs += std::ssize(row);
  double sum = 0, log_sum = 0, distances = 0, end = 0, last = 0;
  int64_t nonzero = 0;
  for (int64_t j = 0; j < std::ssize(row); ++j) {
    const float weight = row[static_cast<size_t>(j)];
    if (weight == 0) continue;
    ++nonzero;
    const double size = std::abs(static_cast<double>(weight));
    sum += size, log_sum += size * std::log(size);
    distances += size * std::abs(static_cast<double>(j) - query.position);
    if (j == query.end_key) end += size;
    if (j >= query.last_begin && j < query.last_end) last += size;
  }
  underflow += underflow_zeros;
  zeros += std::ssize(row) - nonzero - underflow_zeros;
  if (nonzero == 0) {
    ++null_rows;
    return;
  }
  given += sum;
  entropy += std::log(sum) - log_sum / sum;
  distance += distances / sum;
  on_end += end / sum;
  on_last += last / sum;
}

LayerMeasures::LayerMeasures(Options options)
    : options_(std::move(options)),
      diversity_(options_.rectified),
      heads_(options_.rectified.size()),
      diversities_(options_.taus.size()),
      pairs_(options_.head_pairs.size()) {}

void LayerMeasures::add(const QueryWeights& query) {
  const HeadRows& rows = query.rows;
  mean_.assign(static_cast<size_t>(rows.keys), 0);
  // A key without weight in any head counts as underflow if each head has as many such keys.
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int64_t h = 0; h < rows.heads; ++h) {
    const std::span<const float> row = rows.of(h);
    const int64_t underflow = query.underflow.empty() ? 0 : query.underflow[static_cast<size_t>(h)];
    fewest = std::min(fewest, underflow);
    const RowSums before = heads_[static_cast<size_t>(h)];
    heads_[static_cast<size_t>(h)].add(row, underflow, query);
    for (size_t j = 0; j < row.size(); ++j) mean_[j] += row[j];
    if (query.label < 0) continue;
    const RowSums& after = heads_[static_cast<size_t>(h)];
    LabelSums& sums = by_label_[{query.label, h}];
    ++sums.rows, sums.null_rows += after.null_rows - before.null_rows;
    sums.pairs += after.pairs - before.pairs, sums.zeros += after.zeros - before.zeros;
  }
  int64_t zeros = 0;
  for (const float weight : mean_) zeros += weight == 0 ? 1 : 0;
  layer_.add(mean_, std::min(fewest, zeros), query);
  for (size_t t = 0; t < options_.taus.size(); ++t) {
    const bool computes = t == 0 || diversity_.depends_on_tau();
    diversities_[t] = computes ? diversities_[t] + diversity_(rows, options_.taus[t]) : diversities_[0];
  }
  for (size_t p = 0; p < pairs_.size(); ++p) {
    const auto [a, b] = options_.head_pairs[p];
    const double divergence = analysis::pair_divergence(rows.of(a), rows.of(b));
    if (divergence < 0) continue;
    pairs_[p].sum += divergence, ++pairs_[p].rows;
  }
}

double LayerMeasures::diversity(size_t tau) const { return diversities_[tau] / static_cast<double>(layer_.rows); }

double LayerMeasures::pair_divergence(size_t pair) const {
  return pairs_[pair].sum / static_cast<double>(pairs_[pair].rows);
}

double LayerMeasures::null_variance() const {
  double sum = 0, squares = 0;
  for (const RowSums& head : heads_) {
    const double rate = static_cast<double>(head.null_rows) / static_cast<double>(head.rows);
    sum += rate, squares += rate * rate;
  }
  const auto count = static_cast<double>(heads_.size());
  return std::max(0.0, squares / count - (sum / count) * (sum / count));
}

}  // namespace fovea::analysis
