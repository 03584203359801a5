#include "fovea/kernels/simd/tanh_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/simd/isa.h"
#define FOVEA_ISA 0
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors stay within this file
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/simd/tanh_run_test-inl.h"

namespace fovea::kernels {
void tanh_by_plain_vectors(const float* x, int64_t n, float* values, float* slopes) { run_tanh(x, n, values, slopes); }
}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"

namespace fovea::kernels::tanh_test {
namespace {

// The levels of the machine.
std::vector<TanhRun> runs() {
  std::vector<TanhRun> all = {&tanh_by_plain_vectors};
  const std::vector<Isa> levels = runnable_isas();
  const auto has = [&](Isa level) { return std::find(levels.begin(), levels.end(), level) != levels.end(); };
  if (has(Isa::kAvx2) || has(Isa::kNeon)) all.push_back(&tanh_by_vectors);
  if (has(Isa::kAvx512)) all.push_back(&tanh_by_wide_vectors);
  return all;
}

struct Results {
  std::vector<float> values, slopes;
};
Results results_of(TanhRun run, std::vector<float> x) {
  x.resize((x.size() + 15) / 16 * 16);
  Results found{std::vector<float>(x.size()), std::vector<float>(x.size())};
  run(x.data(), static_cast<int64_t>(x.size()), found.values.data(), found.slopes.data());
  return found;
}

// Numbers of all sizes of both signs, many of them where one formula ends and the other begins.
std::vector<float> numbers() {
  std::vector<float> all = {0.0F, -0.0F, 1e-38F, -1e-30F, 1e-8F, 0.625F, -0.625F, std::nextafter(0.625F, 0.0F)};
  for (float x = 1e-6F; x < 40; x *= 1.003F) all.push_back(x), all.push_back(-x);
  Rng rng(5);
  for (int i = 0; i < 4000; ++i)
    all.push_back(static_cast<float>(rng.normal())), all.push_back(0.625F + static_cast<float>(rng.normal()) / 64);
  return all;
}

TEST(Tanh, IsThatOfDoubleAtEveryLevel) {
  const std::vector<float> x = numbers();
  // Some six roundings of 2^-24 in the value; the slope has the exponential's argument twice.
  constexpr double kValue = 6 * 0x1p-24, kSlope = 12 * 0x1p-24;
  for (const TanhRun run : runs()) {
    const Results found = results_of(run, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double value = std::tanh(double{x[i]}), cosine = std::cosh(double{x[i]}), slope = 1 / (cosine * cosine);
      ASSERT_NEAR(found.values[i], value, kValue * std::abs(value)) << x[i];
      ASSERT_NEAR(found.slopes[i], std::abs(x[i]) > 20 ? 0 : slope, kSlope * slope) << x[i];
    }
  }
}

TEST(Tanh, NeverFalls) {
  std::vector<float> x = numbers();
  std::sort(x.begin(), x.end());
  for (const TanhRun run : runs()) {
    const Results found = results_of(run, x);
    // Two neighbours of the sorted numbers that are nearer than roundings may change places by as much.
    for (size_t i = 1; i < x.size(); ++i)
      ASSERT_GE(found.values[i], found.values[i - 1] - 0x1p-22F * std::abs(found.values[i])) << x[i];
  }
}

TEST(Tanh, EndsAtOne) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const TanhRun run : runs()) {
    const Results found = results_of(run, {50, 1e30F, kInfinity, -50, -3e38F, -kInfinity, std::nanf("")});
    for (const size_t i : {0, 1, 2}) {
      EXPECT_EQ(found.values[i], 1);
      EXPECT_EQ(found.values[i + 3], -1);
      EXPECT_EQ(found.slopes[i], 0);
      EXPECT_EQ(found.slopes[i + 3], 0);
    }
    EXPECT_TRUE(std::isnan(found.values[6]));
    EXPECT_TRUE(std::isnan(found.slopes[6]));
  }
}

}  // namespace
}  // namespace fovea::kernels::tanh_test
