#include "fovea/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fovea::rng_test {
namespace {

TEST(Rng, IsAFunctionOfSeedStreamAndCount) {
  Rng a(1, 2), b(1, 2), c(1, 3);
  const uint64_t first = a();
  EXPECT_EQ(first, b());
  EXPECT_NE(first, c());
  b.seek(0);
  EXPECT_EQ(first, b());
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = a.normal();
    sum += x;
    squares += x * x;
  }
  // Five standard errors: 1 / sqrt(n) for the mean, sqrt(2 / n) for the variance.
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace fovea::rng_test
