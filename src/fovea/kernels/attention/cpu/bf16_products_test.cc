#include "fovea/kernels/attention/cpu/bf16_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

namespace fovea::kernels::bf16_products_test {
namespace {

using testing_suite::Array;
using testing_suite::Layout;

class Bf16ProductsTest : public LevelTest {};

int least_exponent(const Bf16Rows& rows) {
  return with_isa([&](auto tag) { return Bf16Scan<decltype(tag)::kIsa>::least_exponent(rows); });
}

TEST_P(Bf16ProductsTest, FindTheLeastExponent) {
  for (const int64_t width : {2, 30, 32, 34, 70}) {
    std::vector<uint16_t> data(static_cast<size_t>(5 * 80), 0);  // rows 80 apart; between them subnormal numbers
    for (int64_t t = 0; t < 5; ++t) std::fill_n(data.begin() + t * 80 + width, 80 - width, uint16_t{1});
    const std::vector<int64_t> places = {9, 4, 0, 2};
    const Bf16Rows rows = {data.data(), 80, 1, 3, width};
    const Bf16Rows listed = {data.data(), 80, 1, 3, width, places.data()};
    EXPECT_EQ(least_exponent(rows), 255);
    const auto set = [&](int64_t t, int64_t i, uint16_t bits) { data[static_cast<size_t>(t * 80 + i)] = bits; };
    set(1, 0, 0x8000);  // -0
    EXPECT_EQ(least_exponent(rows), 255);
    set(3, width - 1, 0xbf81);  // -1.0078125
    EXPECT_EQ(least_exponent(rows), 127);
    EXPECT_EQ(least_exponent(listed), 255);
    set(2, width / 2, 0x0080);  // the least normal number
    EXPECT_EQ(least_exponent(rows), 1);
    EXPECT_EQ(least_exponent(listed), 1);
    set(4, 0, 0x8001);  // the least number, negative
    EXPECT_EQ(least_exponent(rows), 1);
    EXPECT_EQ(least_exponent(listed), 0);
  }
}

struct Head {
  int64_t queries = 16, keys = 64, dim = 8;
  double q = 1, k = 1;  // of the last element
  bool pays = true;
};

// Whether a head of ones goes in bfloat16; the last elements of its last query and of its last key may differ.
bool goes_in_bf16(const Head& head) {
  const auto ones = [&](int64_t tokens, double last) {
    Array out(DType::kBFloat16, Layout::kPadded, tokens, 2, head.dim);
    out.fill(1);
    out.set(tokens - 1, 1, head.dim - 1, last);
    return out;
  };
  const Array q = ones(head.queries, head.q), k = ones(head.keys, head.k);
  AttentionProblem p;
  p.dtype = DType::kBFloat16, p.num_heads = 2, p.head_dim = head.dim;
  p.sequences = {{0, head.queries, 0, head.keys}};
  SerialExecutor serial;
  const Bf16Flags::Pays pays = [&](int64_t, int64_t) { return head.pays; };
  return Bf16Flags(p, {q.rows<const void>(), k.rows<const void>()}, pays, serial).of(0, 1);
}

// Exponents whose bits, 127 above them, are at least 142 together: below, sums of products may fall below the normal
// range, as (1 + 2^-7) 2^-63 2^-63 - 2^-63 2^-63 does.
TEST_P(Bf16ProductsTest, AreTakenWhereNothingFallsBelowTheNormalRange) {
  const bool can = has_bf16_pairs();
  EXPECT_EQ(goes_in_bf16({}), can);
  EXPECT_EQ(goes_in_bf16({.q = 0, .k = -0.0}), can);
  EXPECT_EQ(goes_in_bf16({.q = 0x1p-56, .k = -0x1p-56}), can);
  EXPECT_FALSE(goes_in_bf16({.q = 0x1p-56, .k = 0x1p-57}));
  EXPECT_EQ(goes_in_bf16({.q = 0x1p-112}), can);
  EXPECT_FALSE(goes_in_bf16({.q = -0x1p-113}));
  EXPECT_EQ(goes_in_bf16({.k = 0x1p-112}), can);
  EXPECT_FALSE(goes_in_bf16({.k = 0x1p-113}));
  EXPECT_FALSE(goes_in_bf16({.q = 0x1p-130}));
  EXPECT_FALSE(goes_in_bf16({.queries = 15}));
  EXPECT_FALSE(goes_in_bf16({.dim = 7}));
  EXPECT_FALSE(goes_in_bf16({.pays = false}));
}

// Whether a head of ones goes by tiles if the last element of one of its arrays is `element`.
bool goes_by_tiles(const Head& head, double element, size_t array) {
  std::vector<Array> all;  // q, k, v
  for (const int64_t tokens : {head.queries, head.keys, head.keys}) {
    all.emplace_back(DType::kBFloat16, Layout::kPadded, tokens, 2, head.dim);
    all.back().fill(1);
  }
  all[array].set(all[array].tokens() - 1, 1, head.dim - 1, element);
  AttentionProblem p;
  p.dtype = DType::kBFloat16, p.num_heads = 2, p.head_dim = head.dim;
  p.sequences = {{0, head.queries, 0, head.keys}};
  AttentionForward in;
  in.q = all[0].rows<const void>(), in.k = all[1].rows<const void>(), in.v = all[2].rows<const void>();
  SerialExecutor serial;
  return TiledHeads(p, in, serial).of(0, 1);
}

// Tiles take numbers below the normal range for zero, and nothing there looks for what is not finite.
TEST_P(Bf16ProductsTest, GoByTilesWhereNoNumberIsExtreme) {
  for (const size_t array : {0, 1, 2}) {
    for (const double usual : {1.0, -3.0, 0.0, 0x1p-55, -0x1p63}) {
      EXPECT_EQ(goes_by_tiles({}, usual, array), has_tiles()) << usual;
    }
    for (const double extreme : {0x1p-56, -0x1p-130, 0x1p64, double{INFINITY}, double{NAN}}) {
      EXPECT_FALSE(goes_by_tiles({}, extreme, array)) << extreme;
    }
  }
  EXPECT_FALSE(goes_by_tiles({.queries = 15}, 1, 0));
  EXPECT_FALSE(goes_by_tiles({.dim = 7}, 1, 0));
}

// The one key that is not zero, and below the normal range, is found where a list says that it lies.
TEST_P(Bf16ProductsTest, AreLookedForWhereAListSays) {
  constexpr int64_t kQueries = 20, kKeys = 90, kDim = 64, kBefore = 7;  // entries of the list before the sequence's
  const auto rows_of = [&](int64_t tokens, double first) {
    Array out(DType::kBFloat16, Layout::kPadded, tokens, 1, kDim);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < kDim; ++i) out.set(t, 0, i, i == 0 ? first : 0);
    }
    return out;
  };
  const Array q = rows_of(kQueries, 0x1p100), v = rows_of(kKeys + 1, 1);
  Array k = rows_of(kKeys + 1, 0);
  k.set(kKeys, 0, 0, 0x1p-127);
  std::vector<int64_t> list(kBefore, 0);  // then backwards, all but token 0
  for (int64_t t = 0; t < kKeys; ++t) list.push_back(kKeys - t);
  AttentionProblem p;
  p.spec = parse_attention("relu");
  p.dtype = DType::kBFloat16, p.head_dim = kDim, p.keys_listed = true;
  p.sequences = {{0, kQueries, kBefore, kKeys}};
  const Array out = rows_of(kQueries, 0);
  AttentionForward in;
  in.q = q.rows<const void>(), in.k = k.rows<const void>(), in.v = v.rows<const void>();
  in.out = out.rows<void>(), in.key_tokens = list.data();
  SerialExecutor serial;
  kRowsKernel.forward(p, in, serial);
  for (int64_t t = 0; t < kQueries; ++t) EXPECT_EQ(out.get(t, 0, 0), 0x1p-27);
}

INSTANTIATE_TEST_SUITE_P(Levels, Bf16ProductsTest, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::bf16_products_test
