// The products of pairs of bfloat16 that the level neon-bf16 has: simd_neon-inl.h says what they compute.
#if defined(__aarch64__)
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/simd/isa.h"
#define FOVEA_ISA 8
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors stay within this file
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {
namespace {

void add_pairs(const float* pairs, float word, float* sums) {
  store(sums, add_pair_products(load(pairs), word, load(sums)));
}

}  // namespace
}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"

namespace fovea::kernels::pairs_neon_test {
namespace {

bool is_runnable() {
  const std::vector<Isa> levels = runnable_isas();
  return std::find(levels.begin(), levels.end(), Isa::kNeonBf16) != levels.end();
}

float value_of(uint16_t number) { return std::bit_cast<float>(uint32_t{number} << 16); }
float word_of(uint16_t low, uint16_t high) { return std::bit_cast<float>(uint32_t{low} | uint32_t{high} << 16); }
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? 0.0F : x; }

// An exact sum as a float: the odd one of its neighbours. `long double` has 113 binary digits here.
float to_odd(long double exact) {
  auto near = static_cast<float>(exact);
  if (static_cast<long double>(near) == exact) return flushed(near);
  if (std::abs(static_cast<long double>(near)) > std::abs(exact)) near = std::nextafter(near, 0.0F);
  return flushed(std::bit_cast<float>(std::bit_cast<uint32_t>(near) | 1U));
}

// A number of 8 digits between 2^least and 2^(least + count), or its negative.
uint16_t number(Rng& rng, int least, uint64_t count) {
  const auto exponent = static_cast<uint32_t>(127 + least + static_cast<int>(rng.below(count)));
  return static_cast<uint16_t>(rng.below(2) << 15 | exponent << 7 | rng.below(128));
}

struct Range {
  int least;
  uint64_t count;
};

TEST(PairsOfBfloat16, AreWhatTheirDefinitionSays) {
  if (!is_runnable()) GTEST_SKIP() << "no bfdot here";
  Rng rng(1);
  for (const auto& [least, count] : {Range{-2, 4}, Range{-20, 40}, Range{-66, 12}, Range{-127, 3}}) {
    int inexact = 0;
    for (int round = 0; round < 2000; ++round) {
      const std::pair left = {number(rng, least, count), number(rng, least, count)};
      std::pair<uint16_t, uint16_t> right[kLanes];
      float pairs[kLanes], sums[kLanes], want[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        right[i] = {number(rng, least, count), number(rng, least, count)};
        pairs[i] = word_of(right[i].first, right[i].second);
        sums[i] = flushed(value_of(number(rng, std::max(2 * least, -126), 2 * count)) * (1 + 0x1p-20F));
        const auto product = [](uint16_t a, uint16_t b) {
          return static_cast<long double>(flushed(flushed(value_of(a)) * flushed(value_of(b))));
        };
        const long double both = product(left.first, right[i].first) + product(left.second, right[i].second);
        want[i] = to_odd(static_cast<long double>(to_odd(both)) + static_cast<long double>(sums[i]));
        inexact += static_cast<long double>(want[i]) != both + static_cast<long double>(sums[i]) ? 1 : 0;
      }
      add_pairs(pairs, word_of(left.first, left.second), sums);
      for (int i = 0; i < kLanes; ++i) ASSERT_EQ(sums[i], want[i]) << "2^" << least << ", round " << round;
    }
    if (least > -127) {  // there all products are zero
      EXPECT_GT(inexact, 100) << "2^" << least;
    }
  }
}

// An addition errs by less than a unit of the last place, twice as much as one that rounds to the nearest.
TEST(PairsOfBfloat16, ErrByLessThanAUnit) {
  if (!is_runnable()) GTEST_SKIP() << "no bfdot here";
  Rng rng(2);
  constexpr int kPairs = 64;
  double greatest = 0;
  for (int round = 0; round < 500; ++round) {
    float sums[kLanes] = {};
    double exact[kLanes] = {}, sizes[kLanes] = {};
    for (int pair = 0; pair < kPairs; ++pair) {
      const std::pair left = {number(rng, -3, 6), number(rng, -3, 6)};
      float pairs[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const std::pair right = {number(rng, -3, 6), number(rng, -3, 6)};
        pairs[i] = word_of(right.first, right.second);
        const double low = double{value_of(left.first)} * value_of(right.first);
        const double high = double{value_of(left.second)} * value_of(right.second);
        exact[i] += low + high, sizes[i] += std::abs(low) + std::abs(high);
      }
      add_pairs(pairs, word_of(left.first, left.second), sums);
    }
    for (int i = 0; i < kLanes; ++i) {
      greatest = std::max(greatest, std::abs(double{sums[i]} - exact[i]) / sizes[i]);
      ASSERT_LE(std::abs(double{sums[i]} - exact[i]), 2 * kPairs * 0x1p-23 * sizes[i]);
    }
  }
  EXPECT_GT(greatest, 0x1p-24);
}

}  // namespace
}  // namespace fovea::kernels::pairs_neon_test
#endif
