#include "fovea/analysis/diversity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fovea::analysis::diversity_test {
namespace {

constexpr double kRounding = 1e-12;  // of some sums in double

double diversity(const std::vector<float>& weights, std::vector<bool> rectified, double tau = 1) {
  const auto heads = static_cast<int64_t>(rectified.size());
  const auto keys = static_cast<int64_t>(weights.size()) / heads;
  return HeadDiversity(std::move(rectified))({weights.data(), heads, keys, keys}, tau);
}

TEST(HeadDiversity, IsZeroForEqualHeads) {
  EXPECT_NEAR(diversity({0.25F, 0.75F, 0.25F, 0.75F}, {false, false}), 0, kRounding);
  EXPECT_NEAR(diversity({2, 0, 1, 2, 0, 1}, {true, true}, 0.5), 0, kRounding);
  EXPECT_NEAR(diversity({0, 0, 0, 0}, {true, true}), 0, kRounding) << "both without any key";
}

TEST(HeadDiversity, IsTheLogarithmOfHeadsForHeadsApart) {
  EXPECT_NEAR(diversity({1, 0, 0, 1}, {false, false}), std::log(2), kRounding);
  EXPECT_NEAR(diversity({1, 0, 0, 0, 1, 0, 0, 0, 1}, {false, false, false}), std::log(3), kRounding);
  // No key is an outcome of its own.
  EXPECT_NEAR(diversity({1, 0, 0, 0}, {false, false}), std::log(2), kRounding);
}

TEST(HeadDiversity, ByHand) {
  // Means 1/2 1/2: ln 2 less the entropies of (1, 0) and (1/4, 3/4), whose mean is (5/8, 3/8).
  const double of_mean = -(0.625 * std::log(0.625) + 0.375 * std::log(0.375));
  const double own = -(0.25 * std::log(0.25) + 0.75 * std::log(0.75));
  EXPECT_NEAR(diversity({1, 0, 0.25F, 0.75F}, {false, false}), of_mean - own / 2, kRounding);
  EXPECT_NEAR(diversity({4, 0, 1, 3}, {false, false}), of_mean - own / 2, kRounding) << "scales do not matter";
}

// ReLA's heads: softmax over all keys of w^tau, zeros as e^0; a null head is one outcome.
TEST(HeadDiversity, OfRectifiedHeads) {
  for (const double tau : {1.0, 0.5, 0.1}) {
    const double x = std::pow(3.0, tau), z = std::exp(x) + 1, p = std::exp(x) / z, q = 1 / z;
    // Head 1: (p, q, none 0); head 2 null: (0, 0, 1).
    const double mean = -(p / 2 * std::log(p / 2) + q / 2 * std::log(q / 2) + 0.5 * std::log(0.5));
    const double own = -(p * std::log(p) + q * std::log(q));
    EXPECT_NEAR(diversity({3, 0, 0, 0}, {true, true}, tau), mean - own / 2, kRounding) << tau;
  }
  // A large weight must not overflow exp.
  EXPECT_NEAR(diversity({5000, 0, 0, 5000}, {true, true}), std::log(2), kRounding);
}

TEST(PairDivergence, ByHand) {
  const std::vector<float> a = {1, 0}, b = {0, 1}, c = {0.5F, 0.5F}, none = {0, 0};
  EXPECT_NEAR(pair_divergence(a, b), std::log(2), kRounding);
  EXPECT_NEAR(pair_divergence(a, a), 0, kRounding);
  // KL(a, m) = ln(4/3), KL(c, m) = ln(2/3) / 2 + ln(2) / 2 with m = (3/4, 1/4).
  EXPECT_NEAR(pair_divergence(a, c), (std::log(4.0 / 3) + (std::log(2.0 / 3) + std::log(2.0)) / 2) / 2, kRounding);
  EXPECT_LT(pair_divergence(a, none), 0);
}

}  // namespace
}  // namespace fovea::analysis::diversity_test
