#pragma once
#include "fovea/kernels/attention/cpu/float_order.h"
#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {
namespace {

// The number of the n numbers at s, whole vectors, that are `from` or more.
inline int64_t count_from(const float* s, int64_t n, float from) {
  const F bound = set(from);
  int64_t count = 0;
  for (int64_t j = 0; j < n; j += kLanes) count += __builtin_popcount(bits(less_equal(bound, load(s + j))));
  return count;
}

// The k-th greatest of a row of whole vectors (-inf: no candidate), or -inf when there are no more than k candidates or
// one of them is NaN. Exact. The interval that holds it is halved, between values and then, for wide ranges and ties,
// between their codes, until k entries lie above or one value is left.
inline float kth_greatest(const float* s, int64_t n, int64_t k) {
  F top = set(-kInfinity), bottom = set(kInfinity);
  int64_t candidates = 0;
  uint32_t nans = 0;
  for (int64_t j = 0; j < n; j += kLanes) {
    const F x = load(s + j);
    const M is_candidate = less(set(-kInfinity), x);
    top = max(x, top);
    bottom = select(is_candidate, min(x, bottom), bottom);
    candidates += __builtin_popcount(bits(is_candidate));
    nans |= bits(is_nan(x));
  }
  if (nans != 0 || candidates <= k) return -kInfinity;
  const auto least_from = [&](float from) {
    const F bound = set(from);
    F least = set(kInfinity);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F x = load(s + j);
      least = select(less_equal(bound, x), min(x, least), least);
    }
    return -greatest(set(0) - least);
  };
  // The invariant: at least k entries are >= low, and fewer than k are >= high.
  float low = -greatest(set(0) - bottom), high = greatest(top);
  if (count_from(s, n, high) >= k) return high;
  for (int step = 0; step < 24; ++step) {
    const float middle = 0.5F * low + 0.5F * high;
    if (!(middle > low) || !(middle < high)) break;
    const int64_t count = count_from(s, n, middle);
    if (count == k) return least_from(middle);
    (count > k ? low : high) = middle;
  }
  uint32_t low_code = ordered(low), high_code = ordered(high);
  while (high_code - low_code > 1) {
    const uint32_t middle = low_code + (high_code - low_code) / 2;
    const int64_t count = count_from(s, n, from_ordered(middle));
    if (count == k) return least_from(from_ordered(middle));
    (count > k ? low_code : high_code) = middle;
  }
  return from_ordered(low_code);
}

// Entries below `threshold` become -inf. NaN entries stay.
inline void drop_below(float* s, int64_t n, float threshold) {
  const F bound = set(threshold);
  for (int64_t j = 0; j < n; j += kLanes) {
    const F x = load(s + j);
    store(s + j, select(less(x, bound), set(-kInfinity), x));
  }
}

}  // namespace
}  // namespace fovea::kernels
