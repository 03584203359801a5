#include "fovea/kernels/attention/cpu/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

namespace fovea::kernels {
namespace {

using testing_suite::Array;
using testing_suite::Layout;

class Pairs : public AtLevel {};

int least_exponent(const PairRows& rows) {
  return with_isa([&](auto tag) { return PairScan<decltype(tag)::kIsa>::least_exponent(rows); });
}

TEST_P(Pairs, FindTheLeastExponent) {
  for (const int64_t width : {2, 30, 32, 34, 70}) {
    std::vector<uint16_t> data(static_cast<size_t>(5 * 80), 0);  // rows 80 apart; between them subnormal numbers
    for (int64_t t = 0; t < 5; ++t) std::fill_n(data.begin() + t * 80 + width, 80 - width, uint16_t{1});
    const std::vector<int64_t> places = {9, 4, 0, 2};
    const PairRows rows = {data.data(), 80, 1, 3, width};
    const PairRows listed = {data.data(), 80, 1, 3, width, places.data()};
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

// The one key that is not zero, and below the normal range, is found where a list says that it lies.
TEST_P(Pairs, AreLookedForWhereAListSays) {
  constexpr int64_t kQueries = 20, kKeys = 90, kDim = 64;
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
  std::vector<int64_t> list;  // backwards, all but token 0
  for (int64_t t = 0; t < kKeys; ++t) list.push_back(kKeys - t);
  AttentionProblem p;
  p.spec = parse_attention("relu");
  p.dtype = DType::kBFloat16, p.head_dim = kDim, p.keys_listed = true;
  p.sequences = {{0, kQueries, 0, kKeys}};
  const Array out = rows_of(kQueries, 0);
  AttentionForward in;
  in.q = q.rows<const void>(), in.k = k.rows<const void>(), in.v = v.rows<const void>();
  in.out = out.rows<void>(), in.key_tokens = list.data();
  SerialExecutor serial;
  kRowsKernel.forward(p, in, serial);
  for (int64_t t = 0; t < kQueries; ++t) EXPECT_EQ(out.get(t, 0, 0), 0x1p-27);
}

INSTANTIATE_TEST_SUITE_P(Levels, Pairs, testing::ValuesIn(levels_of_this_machine()), level_title);

}  // namespace
}  // namespace fovea::kernels
