#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_search.h"

// A lower bound of the k-th greatest score that comes from bounds is too low by the width of a bound. The exact scores
// of the k keys with the greatest lower bounds give one that is hardly ever too low at all, and half as many of the
// other candidates have to be scored.
namespace fovea::kernels {

// Rows in which every score that a selection compares is a product, and whose list holds the best k keys.
bool CandidateSearch::may_select(const ScreenedQuery& row) const {
  return selection_->k > 0 && !leaves_candidates_ && !row.settled && !row.terms.any() &&
         row.list.count >= selection_->k && row.threshold > -std::numeric_limits<float>::infinity();
}

void CandidateSearch::score(int64_t index, RowList& list) const {
  ops_->dots({keys_->rows, width_, list.keys, list.count}, queries_.get() + index * width_, scale_, list.values);
}

void CandidateSearch::fetch(const RowList& list) const {
  constexpr int64_t kMost = 256;  // more would push one another out
  if (is_near(keys_->num_keys, width_)) return;
  ops_->fetch({keys_->rows, width_, list.keys, std::min(list.count, kMost)});
}

// The candidates whose lower bounds reach the threshold; none if they say little about the others: where they are
// nearly all, and in a row that was screened twice, whose threshold is exact already and reached by less than k lower
// bounds.
RowList CandidateSearch::find_best(const ScreenedQuery& row, int64_t slot) {
  RowList best = {best_lists_.get() + slot * list_stride_, best_bounds_.get() + slot * list_stride_, row.list.count};
  std::memcpy(best.keys, row.list.keys, static_cast<size_t>(best.count) * sizeof *best.keys);
  std::memcpy(best.values, row.list.values, static_cast<size_t>(best.count) * sizeof *best.values);
  best.count = ops_->prune(row.threshold, best.values, best.keys, best.count);
  if (best.count < selection_->k || row.list.count * 4 <= best.count * 5) best.count = 0;
  return best;
}

// Raises the threshold to the k-th greatest score of the best keys, and drops what is surely below it.
void CandidateSearch::narrow(int64_t index, RowList best) {
  ScreenedQuery& query = row(index);
  score(index, best);
  const float exact = ops_->kth_greatest(best.values, best.count, selection_->k);
  query.threshold = std::max(query.threshold, normalised(query, exact));
  query.list.count =
      ops_->prune(query.threshold - 2 * query.widest, query.list.values, query.list.keys, query.list.count);
}

// A score is f (x . y) + scale q . m, so this is x . y for an exact score, less what its rounding may add: that of the
// last term, which is a score of the mean, and of the difference. The bound of a block contains the rounding of exact
// scores themselves.
float CandidateSearch::normalised(const ScreenedQuery& row, float score) const {
  const PackedQuery& packed = row.packed;
  const double value = (double{score} - row.of_mean) / packed.factor;
  return static_cast<float>(value - 0x1p-20 * std::abs(value) - (1 + 0x1p-10) * packed.exact * keys_->plain);
}

void CandidateSearch::finish(int64_t index) {
  ScreenedQuery& query = row(index);
  RowList& list = query.list;
  score(index, list);
  list.threshold = ops_->kth_greatest(list.values, list.count, selection_->k);
  query.threshold = std::max(query.threshold, normalised(query, *list.threshold));
  list.count = ops_->prune(*list.threshold, list.values, list.keys, list.count);
}

// Each row's keys are prefetched while the other rows around it are worked on.
void CandidateSearch::select(Rows rows) {
  RowList best[2];
  bool may[3] = {};
  for (int64_t i = rows.begin; i < rows.end + 2; ++i) {
    if (i - 2 >= rows.begin && may[(i - 2) % 3]) finish(i - 2);
    may[i % 3] = i < rows.end && may_select(row(i));
    if (may[i % 3]) {
      best[i % 2] = find_best(row(i), i % 2);
      fetch(best[i % 2].count > 0 ? best[i % 2] : row(i).list);
    }
    if (i - 1 >= rows.begin && may[(i - 1) % 3] && best[(i - 1) % 2].count > 0) {
      narrow(i - 1, best[(i - 1) % 2]);
      fetch(row(i - 1).list);
    }
  }
}

}  // namespace fovea::kernels
