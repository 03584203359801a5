#include "fovea/kernels/attention/testing/oracle.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <span>
#include <variant>

#include "fovea/kernels/attention/testing/lanes.h"

namespace fovea::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

double greatest(const Values& s) { return *std::max_element(s.begin(), s.end()); }

// p_i = (z_i - tau)_+ ^ power, divided by their sum, which is 1 except for rounding.
Values above(const Values& z, double tau, double power) {
  Values p;
  double sum = 0;
  for (const double x : z) sum += p.emplace_back(x > tau ? std::pow(x - tau, power) : 0);
  for (double& x : p) x /= sum;
  return p;
}

// tau of sparsemax: with the scores in descending order, the last r with r z_r > (sum of the first r) - 1.
double sparsemax_tau(const Values& z) {
  Values sorted = z;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, tau = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const auto r = static_cast<double>(i + 1);
    if (r * sorted[i] > sum - 1) tau = (sum - 1) / r;
  }
  return tau;
}

// tau of 1.5-entmax on z = s / 2: with the scores in descending order, the last tau_r <= z_r, where tau_r solves
// sum of (z_i - tau_r)^2 = 1 over the first r.
double entmax15_tau(const Values& z) {
  Values sorted = z;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double mean = 0, squares = 0, tau = sorted[0] - 1;  // squares: sum of (z - mean)^2, updated as Welford does
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto r = static_cast<double>(i + 1);
    const double step = sorted[i] - mean;
    mean += step / r;
    squares += step * (sorted[i] - mean);
    if (squares > 1) break;
    const double candidate = mean - std::sqrt((1 - squares) / r);
    if (candidate <= sorted[i]) tau = candidate;
  }
  return tau;
}

// The root of sum of (z_i - tau)_+^power = 1, halved until the interval holds no number between its ends.
double entmax_tau(const Values& z, double power) {
  double low = greatest(z) - 1, high = greatest(z);
  for (;;) {
    const double middle = low + (high - low) / 2;
    if (!(low < middle && middle < high)) return low;
    double sum = 0;
    for (const double x : z) sum += x > middle ? std::pow(x - middle, power) : 0;
    (sum >= 1 ? low : high) = middle;
  }
}

Values entmax(const Values& s, double alpha) {
  Values z = s;
  const double top = greatest(s);
  for (double& x : z) x = (alpha - 1) * (x - top);
  const double power = 1 / (alpha - 1);
  const double tau = alpha == 2 ? sparsemax_tau(z) : alpha == 1.5 ? entmax15_tau(z) : entmax_tau(z, power);
  return above(z, tau, power);
}

double alpha_of(const Entmax& transform, double learned) { return transform.learned ? learned : transform.alpha; }

// ---- weights of the selected scores ----
Values weigh(const Softmax&, double, const Values& s) {
  Values p;
  double sum = 0;
  const double top = greatest(s);
  for (const double x : s) sum += p.emplace_back(std::exp(x - top));
  for (double& x : p) x /= sum;
  return p;
}
double score_of(const Sink& sink, double learned) { return sink.learned ? learned : sink.score; }
Values weigh(const Sink& sink, double learned, Values s) {
  s.push_back(score_of(sink, learned));
  Values p = weigh(Softmax{}, 0, s);
  p.pop_back();
  return p;
}
Values weigh(const Sparsemax&, double, const Values& s) { return entmax(s, 2); }
Values weigh(const Entmax& transform, double learned, const Values& s) {
  const double alpha = alpha_of(transform, learned);
  return alpha == 1 ? weigh(Softmax{}, 0, s) : entmax(s, alpha);
}
template <class Pointwise>
Values weigh(const Pointwise& transform, double, const Values& s) {
  Values p;
  for (const double x : s) p.push_back(x == -kInfinity ? 0 : transform.weight(x));
  return p;
}

// ---- backward: gradient of the scores from that of the weights, and what alpha gets ----
struct RowGradient {
  Values scores;
  double alpha = 0;
};
struct WeighedRow {
  const Values &scores, &weights, &grad;  // grad: of the weights
};

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// dS = U (dP - sum(U dP) / sum(U)), U = p^(2 - alpha) on the support; for softmax U = p.
// d alpha of Correia, Niculae and Martins 2019, proposition 1.
RowGradient entmax_back(double alpha, const WeighedRow& row) {
  Values u;
  double sum = 0, entropy = 0;
  for (const double p : row.weights) {
    sum += u.emplace_back(p > 0 ? std::pow(p, 2 - alpha) : 0);
    if (p > 0) entropy += p * std::log(p);
  }
  RowGradient out;
  const double mean = dot(u, row.grad) / sum, a = alpha - 1;
  for (size_t i = 0; i < u.size(); ++i) {
    const double p = row.weights[i], share = u[i] / sum;
    out.scores.push_back(u[i] * (row.grad[i] - mean));
    if (a != 0 && p > 0) out.alpha += row.grad[i] * ((p - share) / (a * a) - (p * std::log(p) - share * entropy) / a);
  }
  return out;
}
RowGradient back(const Softmax&, double, const WeighedRow& row) { return entmax_back(1, row); }
// The sink is one more key, whose value is 0.
RowGradient back(const Sink& sink, double learned, const WeighedRow& row) {
  Values scores = row.scores, grad = row.grad;
  scores.push_back(score_of(sink, learned)), grad.push_back(0);
  RowGradient out = entmax_back(1, {scores, weigh(Softmax{}, 0, scores), grad});
  out.alpha = sink.learned ? out.scores.back() : 0;
  out.scores.pop_back();
  return out;
}
RowGradient back(const Sparsemax&, double, const WeighedRow& row) { return entmax_back(2, row); }
RowGradient back(const Entmax& transform, double learned, const WeighedRow& row) {
  RowGradient out = entmax_back(alpha_of(transform, learned), row);
  if (!transform.learned) out.alpha = 0;
  return out;
}
template <class Pointwise>
RowGradient back(const Pointwise& transform, double, const WeighedRow& row) {
  RowGradient out;
  for (size_t i = 0; i < row.grad.size(); ++i) out.scores.push_back(row.grad[i] * transform.slope(row.scores[i]));
  return out;
}

// ---- one row ----
Row row_of(const OracleInput& in, int64_t query) {
  const bool cross = in.kind == AttentionKind::kCross;
  return {.query = cross ? query : query + in.num_keys - in.num_queries,
          .keys = in.num_keys,
          .causal = in.kind == AttentionKind::kCausal,
          .stream = in.stream};
}

const double* vector_at(const Values& rows, int64_t index, int64_t width) { return rows.data() + index * width; }
double* vector_at(Values& rows, int64_t index, int64_t width) { return rows.data() + index * width; }

double dot(const double* a, const double* b, int64_t width) {
  return sum_in_lanes<double>(width, [&](int64_t i) { return a[i] * b[i]; });
}

void add_scaled(double* to, double factor, const double* from, int64_t width) {
  for (int64_t i = 0; i < width; ++i) to[i] += factor * from[i];
}

// The scaled product of a query and a key, under its soft cap.
double product_of(const OracleInput& in, int64_t query, int64_t key) {
  const double product =
      in.scale * dot(vector_at(in.q, query, in.head_dim), vector_at(in.k, key, in.head_dim), in.head_dim);
  return in.spec.cap ? in.spec.cap->value(product) : product;
}

// The sum of the terms that are added to a score.
double term_of(const OracleInput& in, int64_t query, int64_t key) {
  const OracleTerms& t = in.terms;
  double sum = 0;
  if (t.by_head.count > 0) sum += t.by_head.values[static_cast<size_t>(oracle_offset(in, t.by_head, query, key))];
  if (t.by_query.count > 0) {
    sum += vector_at(t.by_query.values, query, t.by_query.count)[oracle_offset(in, t.by_query, query, key)];
  }
  if (t.rows.count > 0) {
    const double* row = vector_at(t.rows.values, oracle_offset(in, t.rows, query, key), in.head_dim);
    sum += in.scale * dot(vector_at(t.queries, query, in.head_dim), row, in.head_dim);
  }
  return sum;
}

// Adds a score's gradient to the gradients of the terms.
void add_term_gradient(const OracleInput& in, int64_t query, int64_t key, double grad, OracleGradients& grads) {
  const OracleTerms& t = in.terms;
  if (t.by_head.count > 0) grads.by_head[static_cast<size_t>(oracle_offset(in, t.by_head, query, key))] += grad;
  if (t.by_query.count > 0) {
    vector_at(grads.by_query, query, t.by_query.count)[oracle_offset(in, t.by_query, query, key)] += grad;
  }
  if (t.rows.count > 0) {
    const int64_t at = oracle_offset(in, t.rows, query, key), width = in.head_dim;
    add_scaled(vector_at(grads.queries, query, width), in.scale * grad, vector_at(t.rows.values, at, width), width);
    add_scaled(vector_at(grads.rows, at, width), in.scale * grad, vector_at(t.queries, query, width), width);
  }
}

// Keys of the row that are weighed: those of `keep`, and of the others those from the selection's threshold on.
std::vector<int64_t> selected(const OracleInput& in, int64_t query, const double* scores) {
  const Row row = row_of(in, query);
  std::vector<int64_t> kept, others;
  bool has_nan = false;
  for (int64_t key = 0; key < in.num_keys; ++key) {
    if (!oracle_candidate(in, row, query, key)) continue;
    const bool keep = in.spec.keep && contains(*in.spec.keep, row, key);
    // No score is better or worse than a NaN, so the row is NaN whatever is selected.
    if (std::isnan(scores[key])) has_nan = true;
    (keep ? kept : others).push_back(key);
  }
  double threshold = -kInfinity;
  if (!has_nan && !others.empty()) {
    Values sorted;
    for (const int64_t key : others) sorted.push_back(scores[key]);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    threshold =
        std::visit([&](const auto& s) { return s.threshold(std::span<const double>(sorted)); }, in.spec.selection);
  }
  for (const int64_t key : others)
    if (has_nan || scores[key] >= threshold) kept.push_back(key);
  std::sort(kept.begin(), kept.end());
  return kept;
}

void forward_row(const OracleInput& in, int64_t query, OracleOutput& output) {
  const Row row = row_of(in, query);
  double* scores = vector_at(output.scores, query, in.num_keys);
  double* weights = vector_at(output.weights, query, in.num_keys);
  for (int64_t key = 0; key < in.num_keys; ++key) {
    if (!oracle_candidate(in, row, query, key)) continue;
    scores[key] = product_of(in, query, key) + term_of(in, query, key);
  }
  double* out = vector_at(output.out, query, in.head_dim);
  const std::vector<int64_t> keys = selected(in, query, scores);
  Values chosen;
  for (const int64_t key : keys) chosen.push_back(scores[key]);
  const Values p = oracle_transform(in.spec.transform, in.alpha, chosen);
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t key = keys[i];
    weights[key] = p[i];
    const double factor = in.factor.empty() ? 1 : in.factor[static_cast<size_t>(query * in.num_keys + key)];
    if (p[i] * factor != 0) add_scaled(out, p[i] * factor, vector_at(in.v, key, in.head_dim), in.head_dim);
    const OracleOffsets& sums = in.terms.sums;
    if (sums.count == 0) continue;
    vector_at(output.sums, query, sums.count)[oracle_offset(in, sums, query, key)] += p[i] * factor;
  }
}

struct OracleCotangents {
  const double *out, *sums;  // of one query; sums may be null
};

void backward_row(const OracleInput& in, const OracleOutput& output, int64_t query, const OracleCotangents& given,
                  OracleGradients& grads) {
  const int64_t width = in.head_dim;
  const double* scores = vector_at(output.scores, query, in.num_keys);
  const std::vector<int64_t> keys = selected(in, query, scores);
  if (keys.empty()) return;
  Values chosen, weights, grad;
  for (const int64_t key : keys) {
    const auto at = static_cast<size_t>(query * in.num_keys + key);
    const double factor = in.factor.empty() ? 1 : in.factor[at];
    chosen.push_back(output.scores[at]);
    weights.push_back(output.weights[at]);
    const double of_sum = given.sums == nullptr ? 0 : given.sums[oracle_offset(in, in.terms.sums, query, key)];
    grad.push_back(factor * (dot(given.out, vector_at(in.v, key, width), width) + of_sum));
    add_scaled(vector_at(grads.v, key, width), output.weights[at] * factor, given.out, width);
  }
  const RowGradient row = std::visit(
      [&](const auto& t) {
        return back(t, in.alpha, {chosen, weights, grad});
      },
      in.spec.transform);
  grads.alpha += row.alpha;
  for (size_t i = 0; i < keys.size(); ++i) {
    const double slope = in.spec.cap ? in.spec.cap->slope(product_of(in, query, keys[i])) : 1;
    const double g = in.scale * row.scores[i] * slope;
    add_scaled(vector_at(grads.q, query, width), g, vector_at(in.k, keys[i], width), width);
    add_scaled(vector_at(grads.k, keys[i], width), g, vector_at(in.q, query, width), width);
    add_term_gradient(in, query, keys[i], row.scores[i], grads);
  }
}

}  // namespace

Values oracle_transform(const Transform& transform, double alpha, const Values& scores) {
  if (scores.empty()) return {};
  if (std::any_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); }))
    return Values(scores.size(), kNan);
  return std::visit([&](const auto& t) { return weigh(t, alpha, scores); }, transform);
}

namespace {

// The score of the block of keys that begins at `first` for the query.
double block_score(const OracleInput& in, const BlockChoice& choice, int64_t query, int64_t first) {
  const int64_t end = std::min(first + choice.block, in.num_keys), width = in.head_dim;
  double score = 0;
  for (int64_t c = 0; c < width; ++c) {
    const double q = vector_at(in.q, query, width)[c];
    double sum = 0, most = -kInfinity;
    for (int64_t key = first; key < end; ++key) {
      const double k = vector_at(in.k, key, width)[c];
      sum += k;
      most = std::max(most, q * k);
    }
    score += choice.score == BlockChoice::Score::kBounds ? most : q * sum / static_cast<double>(end - first);
  }
  return score;
}

// The query sees the block of the key: its own, or fewer than k - 1 of the others have a greater score.
bool sees_block(const OracleInput& in, const BlockChoice& choice, const Row& row, int64_t query, int64_t key) {
  if (row.query < 0) return false;
  const int64_t own = row.query / choice.block, asked = key / choice.block;
  if (asked == own) return true;
  const int64_t end = row.causal ? own : (in.num_keys + choice.block - 1) / choice.block;
  if (asked >= end) return false;
  const double score = block_score(in, choice, query, asked * choice.block);
  int64_t greater = 0;
  for (int64_t other = 0; other < end; ++other) {
    if (other != own && block_score(in, choice, query, other * choice.block) > score) ++greater;
  }
  return greater < choice.best - 1;
}

}  // namespace

bool oracle_candidate(const OracleInput& in, const Row& row, int64_t query, int64_t key) {
  if (const BlockChoice* choice = in.spec.blocks(); choice != nullptr && !sees_block(in, *choice, row, query, key))
    return false;
  if (!in.given.empty() && !in.given[static_cast<size_t>(query * in.num_keys + key)]) return false;
  return contains(in.spec.pairs(), row, key);
}

int64_t oracle_offset(const OracleInput& in, const OracleOffsets& of, int64_t query, int64_t key) {
  const int64_t offset = key - row_of(in, query).query;
  return std::clamp<int64_t>(offset - of.first, 0, of.count - 1);
}

OracleOutput oracle_forward(const OracleInput& in) {
  const auto pairs = static_cast<size_t>(in.num_queries * in.num_keys);
  OracleOutput output{Values(static_cast<size_t>(in.num_queries * in.head_dim)), Values(pairs, -kInfinity),
                      Values(pairs), Values(static_cast<size_t>(in.num_queries * in.terms.sums.count))};
  for (int64_t query = 0; query < in.num_queries; ++query) forward_row(in, query, output);
  return output;
}

OracleGradients oracle_backward(const OracleInput& in, const OracleOutput& output, const Values& grad_out,
                                const Values& grad_sums) {
  const OracleTerms& t = in.terms;
  OracleGradients grads{Values(in.q.size()),
                        Values(in.k.size()),
                        Values(in.v.size()),
                        0,
                        Values(t.by_head.values.size()),
                        Values(t.by_query.values.size()),
                        Values(t.queries.size()),
                        Values(t.rows.values.size())};
  for (int64_t query = 0; query < in.num_queries; ++query) {
    const double* sums = grad_sums.empty() ? nullptr : vector_at(grad_sums, query, t.sums.count);
    backward_row(in, output, query, {vector_at(grad_out, query, in.head_dim), sums}, grads);
  }
  return grads;
}

}  // namespace fovea::kernels
