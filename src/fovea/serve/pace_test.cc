#include "fovea/serve/pace.h"

#include <gtest/gtest.h>

namespace fovea::serve::pace_test {
namespace {

constexpr Work kWork{.tokens = 1000, .steps = 20};

TEST(Pace, SaysNothingBeforeASecondOfWork) {
  Pace pace;
  EXPECT_EQ(pace.least_seconds(kWork, 1e9, 10), 0);
  pace.add({.seconds = 0.5, .tokens = 10, .rows = 10});
  EXPECT_EQ(pace.least_seconds(kWork, 1e9, 10), 0);
  pace.add({.seconds = 0.6, .tokens = 10, .rows = 10});
  EXPECT_GT(pace.least_seconds(kWork, 1e9, 10), 0);
}

// Steps of half a second, 8 rows in each, and half a token finished by each row.
TEST(Pace, IsThatOfTheMeasuredSteps) {
  Pace pace;
  for (int i = 0; i < 1000; ++i) pace.add({.seconds = 0.5, .tokens = 4, .rows = 8});
  EXPECT_NEAR(pace.least_seconds(kWork, 0, 8), 1000 / 4 * 0.5, 1e-6);
  EXPECT_NEAR(pace.least_seconds(kWork, 3000, 8), 4000 / 4 * 0.5, 1e-6);
  EXPECT_NEAR(pace.least_seconds(kWork, 3000, 16), 4000 / 8 * 0.5, 1e-6);  // a step of more rows may take as long
  EXPECT_NEAR(pace.least_seconds(kWork, 3000, 4), 4000 / 4 * 0.5, 1e-6);   // it has computed 8
  EXPECT_NEAR(pace.least_seconds({.tokens = 1, .steps = 20}, 0, 8), 20 * 0.5, 1e-6);
}

TEST(Pace, FollowsTheLatestSteps) {
  Pace pace;
  for (int i = 0; i < 1000; ++i) pace.add({.seconds = 0.1, .tokens = 8, .rows = 8});
  for (int i = 0; i < 300; ++i) pace.add({.seconds = 1, .tokens = 8, .rows = 8});
  EXPECT_NEAR(pace.least_seconds({.tokens = 1, .steps = 10}, 0, 8), 10, 0.1);
}

TEST(Pace, KnowsTheMeanLengthOfTexts) {
  Pace pace;
  EXPECT_EQ(pace.mean_text(), 0);
  pace.add_text(10);
  pace.add_text(30);
  EXPECT_NEAR(pace.mean_text(), 20, 0.1);
}

}  // namespace
}  // namespace fovea::serve::pace_test
