#include "fovea/kernels/attention/testing/oracle_pair.h"

#include <cmath>

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
  double sum = 0;
  for (size_t i = 0; i < width; ++i) sum += std::abs(a[i] * b[i]);
  return sum;
}

double score_magnitude(const PairPlace& at) {
  const OracleInput& in = at.in;
  const OracleTerms& has = in.terms;
  const size_t width = static_cast<size_t>(in.head_dim);
  double sum =
      std::abs(in.scale) * sum_of_magnitudes(in.q.data() + at.query * width, in.k.data() + at.key * width, width);
  if (has.by_head.count > 0) sum += std::abs(has.by_head.values[at.of(has.by_head)]);
  if (has.by_query.count > 0) sum += std::abs(has.by_query.values[at.by_query(has.by_query)]);
  if (has.rows.count == 0) return sum;
  const double* row = has.rows.values.data() + at.of(has.rows) * width;
  return sum + std::abs(in.scale) * sum_of_magnitudes(has.queries.data() + at.query * width, row, width);
}

}  // namespace fovea::kernels::testing_suite
