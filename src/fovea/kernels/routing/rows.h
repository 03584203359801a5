#pragma once
#include <cstdint>
#include <span>

#include "fovea/base/executor.h"
#include "fovea/kernels/routing/members.h"

// Passes over the rows of tokens and of cluster members. A batch has T tokens and H heads, row = token * H + head, and
// N members. T of the templates is float, double, or uint16_t for the bits of bfloat16; sums are float, or double for
// double. Nothing depends on the number of threads.
namespace fovea::kernels {

// x [T, H, D]: element (t, h, i) is data[t * token_stride + h * head_stride + i].
template <class T>
struct TokenRows {
  const T* data = nullptr;
  int64_t token_stride = 0, head_stride = 0;
  int64_t tokens = 0, heads = 0, width = 0;
  int64_t count() const { return tokens * heads; }
};

// The members of the rows (members.h): `rows` of all lists, and places_of(rows).
struct RowMembers {
  std::span<const int32_t> rows;            // [N]
  std::span<const int32_t> starts, places;  // [T * H + 1], [N]
  bool averages = false;  // whether what belongs to a row is divided by the number of its members + kCountBias
};
constexpr double kCountBias = 1e-2;  // as the published code has it
// Added to the variance of a query or a key when it is normalised.
constexpr double kRoutingNormEps = 1e-6;
// Returns the factor of what belongs to a row: 1, or 1 / (its members + kCountBias) if `averages`.
double row_factor(const RowMembers& members, int64_t row);

// out [N, D]: the row of each member, times row_factor().
template <class T>
void gather_rows(const TokenRows<T>& x, const RowMembers& members, T* out, Executor& executor);
// out [T, H, D]: the sum of each row's members of y [N, D] in their order, times row_factor(); zeros without any.
// `shape` tells T, H and D alone.
template <class T>
void sum_rows(const T* y, const RowMembers& members, const TokenRows<T>& shape, T* out, Executor& executor);

// out [T, H, D]: x normalised over D, (x - mean) / sqrt(variance + eps). Statistics in two passes, sums in vectors.
void normalise_rows(const TokenRows<float>& x, double eps, float* out, Executor& executor);
void normalise_rows(const TokenRows<double>& x, double eps, double* out, Executor& executor);
void normalise_rows(const TokenRows<uint16_t>& x, double eps, uint16_t* out, Executor& executor);

// The gradient of x, whose vectors (x - mean) / sqrt(variance + eps) over D went to the members and, of tokens that
// count, into a distance to their nearest centroids.
template <class T, class Wide>
struct EntryGradient {
  TokenRows<T> x;
  RowMembers members;
  const T *first = nullptr, *second = nullptr;  // [N, D], gradients of the members' vectors, added; null: none
  double eps = 0;
  double distance = 0;                    // the gradient of a vector is this times (vector - centroid); 0: nothing
  const Wide* centroids = nullptr;        // [H, c, D]
  NearestClusters nearest = {};           // [H, T]
  std::span<const uint8_t> counted = {};  // [T], 1 of tokens that count for the distance
  T* out = nullptr;                       // [T, H, D]; rows that no gradient reaches are zero
};
void write_gradient(const EntryGradient<float, float>& job, Executor& executor);
void write_gradient(const EntryGradient<double, double>& job, Executor& executor);
void write_gradient(const EntryGradient<uint16_t, float>& job, Executor& executor);

// Sums over the tokens of `sequences`, by head and nearest cluster, in double.
template <class T>
struct ClusterMeasure {
  TokenRows<T> vectors;
  NearestClusters nearest;                // [H, T]
  std::span<const TokenRange> sequences;  // of the tokens that count
  const T* centroids = nullptr;           // [H, C, D]
  std::span<double> counts, sums;         // [H, C], [H, C, D] of the vectors; added to
  std::span<double> squares;              // [H], of (vector - centroid)^2; written
};
void measure_clusters(const ClusterMeasure<float>& job, Executor& executor);
void measure_clusters(const ClusterMeasure<double>& job, Executor& executor);

}  // namespace fovea::kernels
