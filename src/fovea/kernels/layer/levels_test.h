#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/simd/isa.h"

// Tests of the step's kernels at every instruction-set level of the machine, in both element types.
namespace fovea::kernels::testing {

// An input of a kernel, and the same numbers in double.
template <class T>
struct Values {
  std::vector<T> kept;
  std::vector<double> exact;
};

inline double widened(float x) { return x; }
inline double widened(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

template <class T>
T narrowed(double x) {
  const auto single = static_cast<float>(x);
  if constexpr (sizeof(T) == 4) {
    return single;
  } else {
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    return static_cast<uint16_t>(bits >> 16);  // truncation: any number will do
  }
}

template <class T>
Values<T> normals(int64_t count, uint64_t seed) {
  Values<T> values;
  Rng rng(seed);
  for (int64_t i = 0; i < count; ++i) {
    values.kept.push_back(narrowed<T>(rng.normal()));
    values.exact.push_back(widened(values.kept.back()));
  }
  return values;
}

// `sizes`: of each result, the sum of the magnitudes that were added up. A float result is within 2^-22 of that (sums
// of at most a few hundred roundings of 2^-24 that partly cancel); a bfloat16 one is rounded to 2^-8 of itself besides,
// and so may its addends have been.
template <class T>
void expect_close(const std::vector<T>& got, const std::vector<double>& want, const std::vector<double>& sizes) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double bound = (sizeof(T) == 4 ? 0x1p-22 : 0x1p-8) * sizes[i] + 1e-30;
    ASSERT_NEAR(widened(got[i]), want[i], bound) << "element " << i;
  }
}

template <class Work>
void at_every_level(Work&& work) {
  const Isa before = isa();
  for (const Isa level : runnable_isas()) {
    set_isa(level);
    SCOPED_TRACE(name(isa()));
    work();
  }
  set_isa(before);
}

}  // namespace fovea::kernels::testing
