#pragma once
#include <optional>

#include "fovea/kernels/attention/testing/oracle.h"

// Properties of an oracle's input that naive.cc and doubt.cc need.
namespace fovea::kernels::testing_suite {

// Who asks for a transform by its type here, in naive.cc and in doubt.cc knows these: another one has to be told apart
// in all three.
static_assert(kAreAllTransforms<Softmax, Sparsemax, Entmax, Relu, Gelu, LeakyRelu, Sigmoid, Sink>);

// The alpha of entmax; 2 for sparsemax, 1 for all others.
double alpha_of(const OracleInput& in);
// Whether a row's weights, and that of a sink, sum to 1.
bool is_normalised(const Transform& t);
// The score of the sink.
std::optional<double> sink_of(const OracleInput& in);
Row row_of(const OracleInput& in, int64_t query);
// Whether the slope p^(2 - alpha) changes without bound at the edge of the support: d slope / d score is slope times
// (2 - alpha) p^(1 - alpha).
bool is_bent(double alpha);

// A query and a key, and the places of their terms by offset.
struct PairPlace {
  const OracleInput& in;
  size_t query, key;
  size_t of(const OracleOffsets& range) const {
    return static_cast<size_t>(oracle_offset(in, range, static_cast<int64_t>(query), static_cast<int64_t>(key)));
  }
  size_t by_query(const OracleOffsets& range) const { return query * static_cast<size_t>(range.count) + of(range); }
};

double sum_of_magnitudes(const double* a, const double* b, size_t width);
// The sum of the magnitudes of a score's terms.
double score_magnitude(const PairPlace& at);
// The slope of the soft cap at a pair's product, and by what the product's rounding changes it; 1 without a cap.
double cap_slope(const PairPlace& at);

}  // namespace fovea::kernels::testing_suite
