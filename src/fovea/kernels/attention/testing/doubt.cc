#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <variant>

#include "fovea/kernels/attention/testing/naive.h"
#include "fovea/kernels/attention/testing/oracle_pair.h"

namespace fovea::kernels::testing_suite {
namespace {

constexpr double kDoubt = 4e-6;  // of a score's magnitude; float dot products of these sizes are within 1e-6 of it

// The scores that compete for being selected, in descending order.
std::vector<double> competing(const OracleInput& in, int64_t query, const double* scores) {
  const Row row = row_of(in, query);
  std::vector<double> out;
  if (!in.spec.selects()) return out;
  for (int64_t key = 0; key < in.num_keys; ++key)
    if (oracle_candidate(in, row, query, key) && !(in.spec.keep && contains(*in.spec.keep, row, key)))
      out.push_back(scores[key]);
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

double threshold_of(const OracleInput& in, const std::vector<double>& others) {
  if (others.empty()) return -INFINITY;
  return std::visit([&](const auto& s) { return s.threshold(std::span<const double>(others)); }, in.spec.selection);
}

// Rounding of scores, each by up to `doubt`, moves the threshold to another of the scores.
bool is_near(const All&, const std::vector<double>&, double) { return false; }
bool is_near(const TopK&, const std::vector<double>&, double) { return false; }
// The share of the weights down to some score is about p. Factors exp(doubt) on these weights and exp(-doubt) on the
// others move a share a by 2 doubt a (1 - a), half of `doubt` at most; sums of some hundred floats round by less than
// 1e-6.
bool is_near(const TopP& top, const std::vector<double>& others, double doubt) {
  const double moves = doubt / 2 + 1e-6;
  double total = 0, sum = 0;
  for (const double score : others) total += std::exp(score - others[0]);
  for (const double score : others) {
    sum += std::exp(score - others[0]);
    if (std::abs(sum / total - top.p) < moves) return true;
  }
  return false;
}

// Rounding of scores can change which of them are selected.
bool selection_is_doubtful(const OracleInput& in, const std::vector<double>& others, double doubt) {
  const double threshold = threshold_of(in, others);
  if (std::isinf(threshold)) return false;
  for (const double score : others) {
    const double gap = std::abs(score - threshold);
    if (gap != 0 && gap < doubt) return true;
  }
  return std::visit([&](const auto& s) { return is_near(s, others, doubt); }, in.spec.selection);
}

// The score that a key of the row must reach to be selected; a key that stays whatever its score may lie below.
double least_selected(const OracleInput& in, const std::vector<double>& others) {
  return in.spec.keep ? -INFINITY : threshold_of(in, others);
}

// In units of kDoubt. If a score is further from the edge of the support, rounding moves it by so small a part of its
// distance that the derivative there predicts the change.
constexpr double kBentEdge = 16;

struct RowTruth {
  const double *scores, *weights;  // [num_keys]
  double least_selected;
};

// A selected score lies where the transform's derivative jumps: at zero, or at the edge of the support.
bool derivative_is_doubtful(const OracleInput& in, const RowTruth& row, double doubt) {
  const double alpha = alpha_of(in);
  const bool normalised = is_normalised(in.spec.transform);
  const bool smooth =
      std::holds_alternative<Gelu>(in.spec.transform) || std::holds_alternative<Sigmoid>(in.spec.transform);
  if ((normalised && alpha <= 1.5) || smooth) return false;
  double edge = 0;  // in units of the score
  for (int64_t key = 0; key < in.num_keys; ++key)
    if (normalised && row.weights[key] > 0)
      edge = row.scores[key] - std::pow(row.weights[key], alpha - 1) / (alpha - 1);
  for (int64_t key = 0; key < in.num_keys; ++key) {
    if (normalised && row.weights[key] == 1) continue;  // alone, whatever its score
    if (row.scores[key] < row.least_selected) continue;
    const double distance = std::abs(row.scores[key] - edge);
    if (distance < (is_bent(alpha) ? kBentEdge : 1) * doubt && (normalised || distance != 0)) return true;
  }
  return false;
}

}  // namespace

bool is_doubtful(const OracleInput& in, const OracleOutput& output) {
  const size_t n = static_cast<size_t>(in.num_keys);
  for (size_t query = 0; query < static_cast<size_t>(in.num_queries); ++query) {
    double magnitude = 0;
    for (size_t key = 0; key < n; ++key) magnitude = std::max(magnitude, score_magnitude({in, query, key}));
    const double* scores = output.scores.data() + query * n;
    const std::vector<double> others = competing(in, static_cast<int64_t>(query), scores);
    if (selection_is_doubtful(in, others, kDoubt * magnitude)) return true;
    const RowTruth row{scores, output.weights.data() + query * n, least_selected(in, others)};
    if (derivative_is_doubtful(in, row, kDoubt * magnitude)) return true;
  }
  return false;
}

}  // namespace fovea::kernels::testing_suite
