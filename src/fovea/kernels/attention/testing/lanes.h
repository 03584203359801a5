#pragma once
#include <cstddef>
#include <cstdint>

namespace fovea::kernels {

// The sum of term(0), ..., term(width - 1) in four partial sums, one for each place of a vector: compilers may not give
// a single sum another order, so that it would take the time of all additions one after the other.
template <class T, class Term>
T sum_in_lanes(int64_t width, const Term& term) {
  constexpr int64_t kLanes = 4;
  T sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < width; ++i) sums[0] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace fovea::kernels
