#include "fovea/kernels/simd/tiles_test.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "fovea/base/error.h"
#include "fovea/base/rng.h"
#include "fovea/kernels/simd/isa.h"
#define FOVEA_ISA 0
#define FOVEA_TILES 0
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors stay within this file
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/simd/tiles-inl.h"

namespace fovea::kernels {
namespace {

using Words = std::array<uint32_t, kTileSide * kTileSide>;

struct Product {
  Words sums, left, right;
  TileOperands operands() { return {sums.data(), left.data(), right.data()}; }
};

template <class Multiply>
void multiply_emulated(const TileOperands& of, const Multiply& multiply) {
  const TileSession session;
  load_tile<3>(of.sums, kTileRowBytes);
  load_tile<4>(of.left, kTileRowBytes);
  load_tile<5>(of.right, kTileRowBytes);
  multiply();
  store_tile<3>(of.sums, kTileRowBytes);
}
void multiply_bf16_emulated(const TileOperands& of) {
  multiply_emulated(of, [] { multiply_bf16_tiles<3, 4, 5>(); });
}
void multiply_int8_emulated(const TileOperands& of) {
  multiply_emulated(of, [] { multiply_int8_tiles<3, 4, 5>(); });
}

uint32_t word(Rng& rng) { return static_cast<uint32_t>(rng.below(uint64_t{1} << 32)); }

// Exponents' bits from `least` on, `count` of them, of two numbers of bfloat16.
uint32_t pair(Rng& rng, uint32_t least, uint32_t count) {
  const uint32_t low = least + word(rng) % count, high = least + word(rng) % count;
  return (word(rng) & 0x807f807fU) | low << 7 | high << 23;
}

void fill(Words& words, const std::function<uint32_t()>& draw) {
  for (uint32_t& w : words) w = draw();
}

// NaN's bits do not count.
bool same(uint32_t a, uint32_t b) {
  const auto x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
  return a == b || (std::isnan(x) && std::isnan(y));
}

struct Inputs {
  const char* name;
  uint32_t least, count;  // of the factors' exponents
  std::function<uint32_t(Rng&)> sum;
};

TEST(Tiles, EmulateTheProductsOfBfloat16ToTheBit) {
  if (best_isa() != Isa::kAvx512Amx) GTEST_SKIP() << "no AMX here";
  const auto near_one = [](Rng& rng) { return (word(rng) & 0x807fffffU) | 125U << 23; };
  const auto tiny = [](Rng& rng) { return word(rng) & 0x80ffffffU; };
  const auto any = [](Rng& rng) { return word(rng); };
  const Inputs kinds[] = {{"near one", 120, 10, near_one},
                          {"products around the least normal number", 50, 30, tiny},
                          {"factors below the normal range", 0, 3, near_one},
                          {"products and sums beyond the greatest number", 185, 12, any},
                          {"of all kinds", 0, 256, any}};
  for (const Inputs& kind : kinds) {
    SCOPED_TRACE(kind.name);
    Rng rng(7);
    for (int round = 0; round < 200; ++round) {
      Product real;
      fill(real.left, [&] { return pair(rng, kind.least, kind.count); });
      fill(real.right, [&] { return pair(rng, kind.least, kind.count); });
      fill(real.sums, [&] { return kind.sum(rng); });
      Product emulated = real;
      multiply_bf16_by_amx(real.operands());
      multiply_bf16_emulated(emulated.operands());
      for (size_t i = 0; i < real.sums.size(); ++i) ASSERT_TRUE(same(emulated.sums[i], real.sums[i])) << i;
    }
  }
}

TEST(Tiles, EmulateTheProductsOfBytesToTheBit) {
  if (best_isa() != Isa::kAvx512Amx) GTEST_SKIP() << "no AMX here";
  Rng rng(8);
  for (int round = 0; round < 200; ++round) {
    Product real;
    for (Words* words : {&real.sums, &real.left, &real.right}) fill(*words, [&] { return word(rng); });
    Product emulated = real;
    multiply_int8_by_amx(real.operands());
    multiply_int8_emulated(emulated.operands());
    ASSERT_EQ(emulated.sums, real.sums);
  }
}

// Against what a product is, on any machine: whole numbers, of which both sums hold every bit.
TEST(Tiles, MultiplyWholeNumbers) {
  Rng rng(9);
  Product p;
  const auto number = [&] { return static_cast<int>(rng.below(17)) - 8; };
  const auto bf16 = [](int x) { return std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16; };
  std::array<int, 2 * kTileSide * kTileSide> left, right;
  for (size_t i = 0; i < left.size(); ++i) left[i] = number(), right[i] = number();
  for (size_t i = 0; i < p.left.size(); ++i) {
    p.left[i] = bf16(left[2 * i]) | bf16(left[2 * i + 1]) << 16;
    p.right[i] = bf16(right[2 * i]) | bf16(right[2 * i + 1]) << 16;
    p.sums[i] = std::bit_cast<uint32_t>(0.5F);
  }
  multiply_bf16_emulated(p.operands());
  for (size_t m = 0; m < kTileSide; ++m) {
    for (size_t n = 0; n < kTileSide; ++n) {
      float want = 0.5F;
      for (size_t k = 0; k < kTileSide; ++k) {
        for (size_t half = 0; half < 2; ++half) {
          want += static_cast<float>(left[(m * kTileSide + k) * 2 + half] * right[(k * kTileSide + n) * 2 + half]);
        }
      }
      EXPECT_EQ(std::bit_cast<float>(p.sums[m * kTileSide + n]), want);
    }
  }
}

TEST(Levels, SayWhatTheyLack) {
  set_isa(Isa::kPortable);
  const std::string of_portable = missing_forms();
  EXPECT_NE(of_portable.find("vectors"), std::string::npos);
  EXPECT_NE(of_portable.find("four bytes"), std::string::npos);
  for (const Isa level : runnable_isas()) {
    set_isa(level);
    EXPECT_EQ(missing_forms().find("bfloat16") == std::string::npos, has_fast_bf16());
    EXPECT_EQ(missing_forms().find("bytes") == std::string::npos, has_tiles() || has_int8_product());
  }
  set_isa(best_isa());
}

TEST(Levels, AreThoseOfTheMachine) {
  for (const Isa level : runnable_isas()) {
    set_isa(level);
    EXPECT_EQ(isa(), level);
    EXPECT_TRUE(has_tiles() || vector_isa() == level);
    EXPECT_EQ(has_tiles(), level == Isa::kAvx512Amx || level == Isa::kAmxEmulated);
  }
  set_isa(best_isa());
  EXPECT_NE(best_isa(), Isa::kAmxEmulated);
#if defined(__aarch64__)
  EXPECT_THROW(set_isa(Isa::kAvx2), Error);
#else
  EXPECT_THROW(set_isa(Isa::kNeon), Error);
#endif
  if (best_isa() < Isa::kAvx512Amx) {
    EXPECT_THROW(set_isa(Isa::kAvx512Amx), Error);
  }
}

}  // namespace
}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
