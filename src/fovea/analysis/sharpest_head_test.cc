#include "fovea/analysis/sharpest_head.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace fovea::analysis::sharpest_head_test {
namespace {

// Heads of 3 x 3: each row has its own key, all rows have the same key, or every weight is the same.
const std::vector<float> kDiagonal = {1, 0, 0, 0, 1, 0, 0, 0, 1}, kOneKey = {0, 0, 1, 0, 0, 1, 0, 0, 1},
                         kEven = std::vector<float>(9, 1.0F / 3);

std::vector<float> joined(const std::vector<float>& first, const std::vector<float>& second) {
  std::vector<float> both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

TEST(SharpestHead, TellsKeysApart) {
  const std::vector<float> first = joined(kEven, kOneKey), second = joined(kOneKey, kDiagonal);
  const std::array layers = {HeadWeights{first.data(), 2, 3, 3}, HeadWeights{second.data(), 2, 3, 3}};
  EXPECT_NEAR(figures_of(layers[1], 1).mean_information(), std::log(3), 1e-12);
  EXPECT_NEAR(figures_of(layers[1], 0).mean_information(), 0, 1e-12);
  EXPECT_NEAR(figures_of(layers[0], 0).mean_information(), 0, 1e-12);
  const HeadPlace place = sharpest_head(layers);
  EXPECT_EQ(place.layer, 2);
  EXPECT_EQ(place.head, 2);
}

TEST(SharpestHead, SearchesWhereAsked) {
  const std::vector<float> first = joined(kDiagonal, kOneKey), second = joined(kOneKey, kDiagonal);
  const std::array layers = {HeadWeights{first.data(), 2, 3, 3}, HeadWeights{second.data(), 2, 3, 3}};
  EXPECT_EQ(sharpest_head(layers).layer, 1) << "the first of equal ones";
  EXPECT_EQ(sharpest_head(layers, {2, 0}).head, 2);
  EXPECT_EQ(sharpest_head(layers, {0, 2}).layer, 2);
  const HeadPlace given = sharpest_head(layers, {2, 1});
  EXPECT_EQ(given.layer, 2);
  EXPECT_EQ(given.head, 1);
}

TEST(SharpestHead, RowsOfZerosDoNotCount) {
  const std::vector<float> weights = {1, 0, 0, 0, 0, 0, 0, -2, 0};
  EXPECT_NEAR(figures_of({weights.data(), 1, 3, 3}, 0).mean_information(), std::log(2), 1e-12);
}

}  // namespace
}  // namespace fovea::analysis::sharpest_head_test
