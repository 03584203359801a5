#include "fovea/kernels/attention/testing/naive.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <variant>

#include "fovea/kernels/attention/testing/lanes.h"
#include "fovea/kernels/attention/testing/oracle_pair.h"

namespace fovea::kernels::testing_suite {
namespace {

using Floats = std::vector<float>;

Floats narrow(const std::vector<double>& x) { return {x.begin(), x.end()}; }
std::vector<double> widen(const Floats& x) { return {x.begin(), x.end()}; }

Floats softmax(const Floats& s) {
  const float top = *std::max_element(s.begin(), s.end());
  Floats p;
  float sum = 0;
  for (const float x : s) sum += p.emplace_back(std::exp(x - top));
  for (float& x : p) x /= sum;
  return p;
}

// Finds the root by bisection, for any alpha.
Floats entmax(const Floats& s, float alpha) {
  const float top = *std::max_element(s.begin(), s.end()), power = 1 / (alpha - 1);
  float low = -1, high = 0;
  Floats p(s.size());
  float sum = 0;
  for (int step = 0; step < 60; ++step) {
    const float tau = low + (high - low) / 2;
    sum = 0;
    for (size_t i = 0; i < s.size(); ++i) {
      const float above = (alpha - 1) * (s[i] - top) - tau;
      sum += p[i] = above > 0 ? std::pow(above, power) : 0;
    }
    (sum >= 1 ? low : high) = tau;
  }
  for (float& x : p) x /= sum;
  return p;
}

// The value and the slope of a pointwise transform.
std::pair<float, float> activate(const Transform& transform, float s) {
  return std::visit(
      [&]<class T>(const T& t) -> std::pair<float, float> {
        if constexpr (T::kPointwise) return {t.weight(s), t.slope(s)};
        return {};
      },
      transform);
}

// The keys of a row that its scores in float select.
std::vector<size_t> selected_in_float(const OracleInput& in, int64_t query, const Floats& scores) {
  const Row row = row_of(in, query);
  std::vector<size_t> out;
  Floats others;
  const auto kept = [&](size_t key) { return in.spec.keep && contains(*in.spec.keep, row, static_cast<int64_t>(key)); };
  const auto candidate = [&](size_t key) { return oracle_candidate(in, row, query, static_cast<int64_t>(key)); };
  for (size_t key = 0; key < scores.size(); ++key)
    if (candidate(key) && !kept(key)) others.push_back(scores[key]);
  float threshold = -INFINITY;
  if (!others.empty()) {
    std::sort(others.begin(), others.end(), std::greater<>());
    threshold =
        std::visit([&](const auto& s) { return s.threshold(std::span<const float>(others)); }, in.spec.selection);
  }
  for (size_t key = 0; key < scores.size(); ++key)
    if (candidate(key) && (kept(key) || scores[key] >= threshold)) out.push_back(key);
  return out;
}

struct FloatTerms {
  explicit FloatTerms(const OracleInput& in, const HeadCotangents& given)
      : by_head(narrow(in.terms.by_head.values)),
        by_query(narrow(in.terms.by_query.values)),
        queries(narrow(in.terms.queries)),
        rows(narrow(in.terms.rows.values)),
        grad_sums(narrow(given.sums)),
        sums(static_cast<size_t>(in.num_queries * in.terms.sums.count)),
        dby_head(by_head.size()),
        dby_query(by_query.size()),
        dqueries(queries.size()),
        drows(rows.size()) {}
  Floats by_head, by_query, queries, rows, grad_sums, sums, dby_head, dby_query, dqueries, drows;
};

struct FloatHead {
  Floats q, k, v, grad_out, out, dq, dk, dv;
  FloatTerms terms;
  float dalpha = 0;
  size_t width = 0;
};

float dot(const float* a, const float* b, size_t width) {
  return sum_in_lanes<float>(static_cast<int64_t>(width), [&](int64_t i) { return a[i] * b[i]; });
}
void add_scaled(float* to, float factor, const float* from, size_t width) {
  for (size_t i = 0; i < width; ++i) to[i] += factor * from[i];
}

float term_in_float(const FloatHead& head, const PairPlace& at) {
  const OracleTerms& has = at.in.terms;
  float sum = 0;
  if (has.by_head.count > 0) sum += head.terms.by_head[at.of(has.by_head)];
  if (has.by_query.count > 0) sum += head.terms.by_query[at.by_query(has.by_query)];
  if (has.rows.count == 0) return sum;
  const float* row = head.terms.rows.data() + at.of(has.rows) * head.width;
  return sum +
         static_cast<float>(at.in.scale) * dot(head.terms.queries.data() + at.query * head.width, row, head.width);
}

void add_term_gradient(FloatHead& head, const PairPlace& at, float grad) {
  const OracleTerms& has = at.in.terms;
  if (has.by_head.count > 0) head.terms.dby_head[at.of(has.by_head)] += grad;
  if (has.by_query.count > 0) head.terms.dby_query[at.by_query(has.by_query)] += grad;
  if (has.rows.count == 0) return;
  const size_t width = head.width, query = at.query * width, row = at.of(has.rows) * width;
  const float scaled = static_cast<float>(at.in.scale) * grad;
  add_scaled(head.terms.dqueries.data() + query, scaled, head.terms.rows.data() + row, width);
  add_scaled(head.terms.drows.data() + row, scaled, head.terms.queries.data() + query, width);
}

float share_of_alpha(const Floats& p, const Floats& dp, float alpha) {
  const float a = alpha - 1;
  float sum = 0, entropy = 0, out = 0;
  for (const float x : p) {
    sum += x > 0 ? std::pow(x, 2 - alpha) : 0;
    entropy += x > 0 ? x * std::log(x) : 0;
  }
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] <= 0) continue;
    const float share = std::pow(p[i], 2 - alpha) / sum;
    out += dp[i] * ((p[i] - share) / (a * a) - (p[i] * std::log(p[i]) - share * entropy) / a);
  }
  return out;
}

void one_row(const OracleInput& in, size_t query, FloatHead& head) {
  const size_t width = head.width, n = static_cast<size_t>(in.num_keys);
  const auto scale = static_cast<float>(in.scale), alpha = static_cast<float>(alpha_of(in));
  const float* q = head.q.data() + query * width;
  Floats scores(n), slopes(n, 1.0F);  // slopes: of the soft cap
  for (size_t key = 0; key < n; ++key) {
    scores[key] = scale * dot(q, head.k.data() + key * width, width);
    if (in.spec.cap) {
      scores[key] = in.spec.cap->value(scores[key]);
      slopes[key] = in.spec.cap->slope(scores[key]);
    }
    scores[key] += term_in_float(head, {in, query, key});
  }
  const std::vector<size_t> keys = selected_in_float(in, static_cast<int64_t>(query), scores);
  if (keys.empty()) return;
  Floats s, p, dp, u;
  const std::optional<double> sink = sink_of(in);
  float of_sink = 0;
  for (const size_t key : keys) s.push_back(scores[key]);
  const Transform& t = in.spec.transform;
  if (!is_normalised(t)) {
    for (const float x : s) {
      const auto [weight, slope] = activate(t, x);
      p.push_back(weight), u.push_back(slope);
    }
  } else {
    if (sink) s.push_back(static_cast<float>(*sink));
    p = alpha == 1 ? softmax(s) : entmax(s, alpha);
    if (sink) of_sink = p.back(), p.pop_back();
    for (const float x : p) u.push_back(x > 0 ? std::pow(x, 2 - alpha) : 0);
  }
  const float* grad = head.grad_out.data() + query * width;
  float along = 0, total = of_sink;
  for (size_t i = 0; i < keys.size(); ++i) {
    const float factor = in.factor.empty() ? 1 : static_cast<float>(in.factor[query * n + keys[i]]);
    add_scaled(head.out.data() + query * width, p[i] * factor, head.v.data() + keys[i] * width, width);
    add_scaled(head.dv.data() + keys[i] * width, p[i] * factor, grad, width);
    float dweight = dot(grad, head.v.data() + keys[i] * width, width);
    if (in.terms.sums.count > 0) {
      const size_t at = PairPlace{in, query, keys[i]}.by_query(in.terms.sums);
      head.terms.sums[at] += p[i] * factor;
      dweight += head.terms.grad_sums[at];
    }
    dp.push_back(factor * dweight);
    along += u[i] * dp[i], total += u[i];
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const float dscore = u[i] * (dp[i] - (is_normalised(t) ? along / total : 0)), ds = scale * dscore * slopes[keys[i]];
    add_term_gradient(head, {in, query, keys[i]}, dscore);
    add_scaled(head.dq.data() + query * width, ds, head.k.data() + keys[i] * width, width);
    add_scaled(head.dk.data() + keys[i] * width, ds, q, width);
  }
  const auto* entmax_spec = std::get_if<Entmax>(&t);
  if (entmax_spec && entmax_spec->learned) head.dalpha += share_of_alpha(p, dp, alpha);
  if (sink) head.dalpha -= of_sink * along / total;
}

// The inputs of magnitudes() for one weighed key.
struct Term {
  size_t key;
  double weight, slope, factor, grad;  // slope: d weight / d score; grad: of the weight, in magnitude
  double bent;                         // slope, and by what a score's rounding bends it
};

// The cotangents of one query.
struct RowCotangents {
  const double *out, *sums;  // sums: null without
};
RowCotangents row_of(const OracleInput& in, const HeadCotangents& given, size_t query) {
  const auto width = static_cast<size_t>(in.head_dim), count = static_cast<size_t>(in.terms.sums.count);
  return {given.out.data() + query * width, count == 0 ? nullptr : given.sums.data() + query * count};
}

// Kernels may take softmax weights below 2^-110 for zero (docs/attention.md), so that the whole term is in doubt, and
// not eight roundings of it, 8 * 2^-24, as the comparison allows for the others.
double share_in_doubt(const OracleInput& in, double weight) {
  constexpr double kLeastWeight = 0x1p-109, kWhole = 0x1p21;
  return alpha_of(in) == 1 && is_normalised(in.spec.transform) && weight < kLeastWeight ? kWhole : 1;
}

// score: the magnitude of the row's scores.
std::vector<Term> terms_of(const OracleInput& in, const OracleOutput& output, size_t query, const RowCotangents& grad,
                           double score) {
  const size_t n = static_cast<size_t>(in.num_keys), width = static_cast<size_t>(in.head_dim);
  std::vector<Term> out;
  const bool normalised = is_normalised(in.spec.transform);
  const double alpha = alpha_of(in);
  for (size_t key = 0; key < n; ++key) {
    const double p = output.weights[query * n + key];
    if (std::isinf(output.scores[query * n + key]) || (normalised && p == 0)) continue;
    const double doubt = share_in_doubt(in, p);
    const double slope = doubt * (normalised ? std::pow(p, 2 - alpha) : 1);
    const double bend = normalised && is_bent(alpha) ? std::abs(2 - alpha) * std::pow(p, 1 - alpha) : 0;
    const double factor = in.factor.empty() ? 1 : in.factor[query * n + key];
    const double of_sum = grad.sums == nullptr ? 0 : std::abs(grad.sums[PairPlace{in, query, key}.of(in.terms.sums)]);
    const double weight_grad = factor * (sum_of_magnitudes(grad.out, in.v.data() + key * width, width) + of_sum);
    out.push_back({key, doubt * std::abs(p), slope, factor, weight_grad, slope * (1 + bend * score)});
  }
  return out;
}

void add_magnitudes(double* to, double factor, const double* from, size_t width) {
  for (size_t i = 0; i < width; ++i) to[i] += std::abs(factor * from[i]);
}

void add_term_magnitudes(HeadValues& m, const PairPlace& at, double dscore) {
  const OracleTerms& has = at.in.terms;
  if (has.by_head.count > 0) m.by_head[at.of(has.by_head)] += dscore;
  if (has.by_query.count > 0) m.by_query[at.by_query(has.by_query)] += dscore;
  if (has.rows.count == 0) return;
  const size_t width = static_cast<size_t>(at.in.head_dim), query = at.query * width, row = at.of(has.rows) * width;
  const double scaled = std::abs(at.in.scale) * dscore;
  add_magnitudes(m.queries.data() + query, scaled, has.rows.values.data() + row, width);
  add_magnitudes(m.rows.data() + row, scaled, has.queries.data() + query, width);
}

// The weight of the row's sink; 0 without one.
double sink_weight(const OracleInput& in, const OracleOutput& output, size_t query) {
  const std::optional<double> sink = sink_of(in);
  if (!sink) return 0;
  double sum = 1;  // of all weights, divided by the sink's
  for (size_t key = 0; key < static_cast<size_t>(in.num_keys); ++key) {
    const size_t at = query * static_cast<size_t>(in.num_keys) + key;
    if (output.weights[at] != 0) sum += std::exp(output.scores[at] - *sink);
  }
  return 1 / sum;
}

double alpha_magnitude(const std::vector<Term>& terms, double alpha) {
  const double a = alpha - 1;
  double total = 0, entropy = 0, sum = 0;
  for (const Term& t : terms) total += t.slope, entropy += std::abs(t.weight * std::log(t.weight));
  for (const Term& t : terms) {
    const double share = t.bent / total;
    sum += t.grad * ((t.weight + share) / (a * a) + (std::abs(t.weight * std::log(t.weight)) + share * entropy) / a);
  }
  return sum;
}

}  // namespace

HeadValues naive_float(const OracleInput& in, const HeadCotangents& given) {
  FloatHead head{narrow(in.q),
                 narrow(in.k),
                 narrow(in.v),
                 narrow(given.out),
                 Floats(in.q.size()),
                 Floats(in.q.size()),
                 Floats(in.k.size()),
                 Floats(in.v.size()),
                 FloatTerms(in, given),
                 0,
                 static_cast<size_t>(in.head_dim)};
  for (int64_t query = 0; query < in.num_queries; ++query) one_row(in, static_cast<size_t>(query), head);
  const FloatTerms& t = head.terms;
  return {widen(head.out), widen(head.dq),    widen(head.dk),     widen(head.dv),    head.dalpha,
          widen(t.sums),   widen(t.dby_head), widen(t.dby_query), widen(t.dqueries), widen(t.drows)};
}

HeadValues magnitudes(const OracleInput& in, const OracleOutput& output, const HeadCotangents& given) {
  const auto zeros = [](const std::vector<double>& like) { return std::vector<double>(like.size()); };
  const OracleTerms& has = in.terms;
  HeadValues m{zeros(in.q),
               zeros(in.q),
               zeros(in.k),
               zeros(in.v),
               0,
               zeros(output.sums),
               zeros(has.by_head.values),
               zeros(has.by_query.values),
               zeros(has.queries),
               zeros(has.rows.values)};
  const size_t n = static_cast<size_t>(in.num_keys), width = static_cast<size_t>(in.head_dim);
  for (size_t query = 0; query < static_cast<size_t>(in.num_queries); ++query) {
    const double* q = in.q.data() + query * width;
    const RowCotangents grad = row_of(in, given, query);
    double score = 0;
    for (size_t key = 0; key < n; ++key) score = std::max(score, score_magnitude({in, query, key}));
    const std::vector<Term> terms = terms_of(in, output, query, grad, score);
    if (terms.empty()) continue;
    const double of_sink = sink_weight(in, output, query);
    if (const std::optional<double> sink = sink_of(in)) score = std::max(score, std::abs(*sink));
    double along = 0, bent_along = 0, total = of_sink, bent_total = of_sink;
    for (const Term& t : terms) {
      along += t.slope * t.grad, total += t.slope;
      bent_along += t.bent * t.grad, bent_total += t.bent;
    }
    const bool has_mean = is_normalised(in.spec.transform) && total > 0;
    const double mean = has_mean ? (bent_along + (bent_total / total - 1) * along) / total : 0;
    for (const Term& t : terms) {
      const double weight = (t.weight + t.slope * score) * t.factor;
      const double dscore = t.bent * (t.grad + mean) * (1 + score);
      const double ds = std::abs(in.scale) * dscore * cap_slope({in, query, t.key});
      add_magnitudes(m.out.data() + query * width, weight, in.v.data() + t.key * width, width);
      add_magnitudes(m.v.data() + t.key * width, weight, grad.out, width);
      add_magnitudes(m.q.data() + query * width, ds, in.k.data() + t.key * width, width);
      add_magnitudes(m.k.data() + t.key * width, ds, q, width);
      const PairPlace at{in, query, t.key};
      add_term_magnitudes(m, at, dscore);
      if (has.sums.count > 0) m.sums[at.by_query(has.sums)] += std::abs(weight);
    }
    m.alpha += (1 + score) * of_sink * mean;
    if (alpha_of(in) != 1) m.alpha += (1 + score) * alpha_magnitude(terms, alpha_of(in));
  }
  return m;
}

}  // namespace fovea::kernels::testing_suite
