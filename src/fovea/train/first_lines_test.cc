#include "fovea/train/first_lines.h"

#include <gtest/gtest.h>

namespace fovea::train::first_lines_test {
namespace {

TEST(FirstLines, AreDueAtOnceAndThenAfterTwiceTheTime) {
  FirstLines lines;
  EXPECT_TRUE(lines.is_due(0.25));
  EXPECT_FALSE(lines.is_due(0.5));
  EXPECT_FALSE(lines.is_due(1.75));
  EXPECT_TRUE(lines.is_due(2)) << "not before two seconds, or updates of milliseconds would fill the log";
  EXPECT_FALSE(lines.is_due(3.5));
  EXPECT_TRUE(lines.is_due(5)) << "the first update that ends behind four seconds";
  EXPECT_FALSE(lines.is_due(9));
  EXPECT_TRUE(lines.is_due(10));
}

TEST(FirstLines, AreNeverOlderThanHalfOfTheTraining) {
  FirstLines lines;
  double last = 0;
  for (int update = 1; update <= 10000; ++update) {
    const double seconds = 0.7 * update;
    if (lines.is_due(seconds)) last = seconds;
    EXPECT_GE(last, seconds > 2 ? seconds / 2 - 0.7 : 0);
  }
}

}  // namespace
}  // namespace fovea::train::first_lines_test
