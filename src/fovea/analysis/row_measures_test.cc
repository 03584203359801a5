#include "fovea/analysis/row_measures.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fovea::analysis::row_measures_test {
namespace {

constexpr double kRounding = 1e-7;  // weights are float32

LayerMeasures measures(size_t heads, bool rectified = false) {
  return LayerMeasures({.rectified = std::vector<bool>(heads, rectified), .taus = {1, 0.5}, .head_pairs = {}});
}

QueryWeights query(const std::vector<float>& weights, int64_t heads, double position = 0) {
  const auto keys = static_cast<int64_t>(weights.size()) / heads;
  QueryWeights one;
  one.rows = {weights.data(), heads, keys, keys};
  one.position = position;
  return one;
}

TEST(LayerMeasures, ByHand) {
  LayerMeasures sums = measures(2);
  const std::vector<float> first = {0.5F, 0, 0.5F, 0, 0, 1}, second = {0, 0, 0, 0.25F, 0.75F, 0};
  QueryWeights one = query(first, 2, 1), two = query(second, 2, 2);
  one.end_key = two.end_key = 2, one.last_begin = two.last_begin = 1, one.last_end = two.last_end = 2;
  sums.add(one), sums.add(two);

  const RowSums &head = sums.head(0), &other = sums.head(1);
  EXPECT_EQ(head.rows, 2);
  EXPECT_EQ(head.pairs, 6);
  EXPECT_EQ(head.zeros, 4);
  EXPECT_EQ(head.null_rows, 1);
  EXPECT_EQ(head.kept(), 2);
  EXPECT_EQ(head.weighted_rows(), 1);
  EXPECT_NEAR(head.entropy, std::log(2), kRounding);
  EXPECT_NEAR(head.distance, 1, kRounding);  // keys 0 and 2 from 1
  EXPECT_NEAR(head.on_end, 0.5, kRounding);
  EXPECT_EQ(other.zeros, 3);
  EXPECT_EQ(other.null_rows, 0);
  EXPECT_NEAR(other.entropy, -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)), kRounding);
  EXPECT_NEAR(other.distance, 1 + 0.25 * 2 + 0.75, kRounding);
  EXPECT_NEAR(other.on_end, 1, kRounding);
  EXPECT_NEAR(other.on_last, 0.75, kRounding);
  // The mean of the heads: (1/4, 0, 3/4), and (1/8, 3/8, 0), which is as (1/4, 3/4).
  EXPECT_EQ(sums.layer().zeros, 2);
  EXPECT_EQ(sums.layer().null_rows, 0);
  EXPECT_NEAR(sums.layer().entropy, 2 * other.entropy, kRounding);
  EXPECT_NEAR(sums.null_variance(), 0.0625, kRounding);  // of 1/2 and 0
}

TEST(LayerMeasures, UniformRowsHaveTheEntropyOfTheirLength) {
  for (const int64_t keys : {1, 2, 7, 100}) {
    LayerMeasures sums = measures(1);
    const std::vector<float> row(static_cast<size_t>(keys), 1 / static_cast<float>(keys));
    sums.add(query(row, 1));
    EXPECT_NEAR(sums.head(0).entropy, std::log(keys), 1e-6) << keys;
    EXPECT_EQ(sums.head(0).zeros, 0);
    EXPECT_EQ(sums.diversity(0), 0) << "one head";
  }
}

TEST(LayerMeasures, CountsUnderflowApart) {
  LayerMeasures sums = measures(1);
  const std::vector<float> row = {1, 0, 0, 0};
  QueryWeights one = query(row, 1);
  const std::vector<int64_t> underflow = {2};
  one.underflow = underflow;
  sums.add(one);
  EXPECT_EQ(sums.head(0).zeros, 1);
  EXPECT_EQ(sums.head(0).underflow, 2);
  EXPECT_EQ(sums.head(0).kept(), 1);
}

TEST(LayerMeasures, ByLabel) {
  LayerMeasures sums = measures(2, true);
  const std::vector<float> a = {0, 0, 1, 2}, b = {3, 0, 0, 0}, c = {1, 1, 1, 1};
  QueryWeights one = query(a, 2), two = query(b, 2), three = query(c, 2);
  one.label = two.label = 7;
  sums.add(one), sums.add(two), sums.add(three);
  ASSERT_EQ(sums.by_label().size(), 2U) << "the third has no label";
  const LabelSums head = sums.by_label().at({7, 0}), other = sums.by_label().at({7, 1});
  EXPECT_EQ(head.rows, 2);
  EXPECT_EQ(head.null_rows, 1);
  EXPECT_EQ(head.zeros, 3);
  EXPECT_EQ(head.pairs, 4);
  EXPECT_EQ(other.null_rows, 1);
  EXPECT_EQ(other.zeros, 2);
}

TEST(LayerMeasures, DivergenceLeavesOutNullRows) {
  LayerMeasures sums({.rectified = {false, false}, .taus = {1}, .head_pairs = {{0, 1}}});
  const std::vector<float> apart = {1, 0, 0, 1}, null = {1, 0, 0, 0};
  sums.add(query(null, 2));
  EXPECT_TRUE(std::isnan(sums.pair_divergence(0)));
  sums.add(query(apart, 2));
  EXPECT_NEAR(sums.pair_divergence(0), std::log(2), kRounding);
}

}  // namespace
}  // namespace fovea::analysis::row_measures_test
