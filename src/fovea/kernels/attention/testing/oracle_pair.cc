#include "fovea/kernels/attention/testing/oracle_pair.h"

#include <cmath>

#include "fovea/kernels/attention/testing/lanes.h"

namespace fovea::kernels::testing_suite {

double alpha_of(const OracleInput& in) {
  if (const auto* entmax = std::get_if<Entmax>(&in.spec.transform)) return entmax->learned ? in.alpha : entmax->alpha;
  return std::holds_alternative<Sparsemax>(in.spec.transform) ? 2 : 1;
}
bool is_normalised(const Transform& t) {
  return std::holds_alternative<Softmax>(t) || std::holds_alternative<Sparsemax>(t) ||
         std::holds_alternative<Entmax>(t) || std::holds_alternative<Sink>(t);
}
std::optional<double> sink_of(const OracleInput& in) {
  const auto* sink = std::get_if<Sink>(&in.spec.transform);
  if (sink == nullptr) return std::nullopt;
  return sink->learned ? in.alpha : sink->score;
}

Row row_of(const OracleInput& in, int64_t query) {
  const bool cross = in.kind == AttentionKind::kCross;
  return {cross ? query : query + in.num_keys - in.num_queries, in.num_keys, in.kind == AttentionKind::kCausal,
          in.stream};
}

bool is_bent(double alpha) { return alpha > 1.5 && alpha != 2; }

double sum_of_magnitudes(const double* a, const double* b, size_t width) {
  return sum_in_lanes<double>(static_cast<int64_t>(width), [&](int64_t i) { return std::abs(a[i] * b[i]); });
}

namespace {

double product_magnitude(const PairPlace& at) {
  const size_t width = static_cast<size_t>(at.in.head_dim);
  const double* q = at.in.q.data() + at.query * width;
  return std::abs(at.in.scale) * sum_of_magnitudes(q, at.in.k.data() + at.key * width, width);
}

}  // namespace

double score_magnitude(const PairPlace& at) {
  const OracleInput& in = at.in;
  const OracleTerms& has = in.terms;
  const size_t width = static_cast<size_t>(in.head_dim);
  double sum = product_magnitude(at);
  if (has.by_head.count > 0) sum += std::abs(has.by_head.values[at.of(has.by_head)]);
  if (has.by_query.count > 0) sum += std::abs(has.by_query.values[at.by_query(has.by_query)]);
  if (has.rows.count == 0) return sum;
  const double* row = has.rows.values.data() + at.of(has.rows) * width;
  return sum + std::abs(in.scale) * sum_of_magnitudes(has.queries.data() + at.query * width, row, width);
}

double cap_slope(const PairPlace& at) {
  const OracleInput& in = at.in;
  if (!in.spec.cap) return 1;
  const size_t width = static_cast<size_t>(in.head_dim);
  const double *q = in.q.data() + at.query * width, *k = in.k.data() + at.key * width;
  const auto product = sum_in_lanes<double>(in.head_dim, [&](int64_t i) { return q[i] * k[i]; });
  const double capped = in.spec.cap->value(in.scale * product), slope = in.spec.cap->slope(capped);
  // d slope / d s = -2 s' / c^2 slope
  const double bend = 2 * std::abs(capped) / (in.spec.cap->cap * in.spec.cap->cap);
  return slope * (1 + bend * product_magnitude(at));
}

}  // namespace fovea::kernels::testing_suite
