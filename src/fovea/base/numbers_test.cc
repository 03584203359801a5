#include "fovea/base/numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace fovea::numbers_test {
namespace {

TEST(Numbers, AreAllOfTheText) {
  EXPECT_EQ(number_in<int64_t>("-5"), -5);
  EXPECT_EQ(number_in<double>("1e-320"), 1e-320) << "denormal";
  EXPECT_EQ(number_in<double>("2.5"), 2.5);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "1,5", "nan", "inf", "1e400", "--1"}) {
    EXPECT_EQ(number_in<double>(text), std::nullopt) << text;
    EXPECT_EQ(number_in<int64_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(number_in<int64_t>("9223372036854775808"), std::nullopt);
}

TEST(Numbers, AreInTheirRange) {
  EXPECT_EQ(number_in<int64_t>("0", 0, 9), 0);
  EXPECT_EQ(number_in<int64_t>("9", 0, 9), 9);
  EXPECT_EQ(number_in<int64_t>("10", 0, 9), std::nullopt);
  EXPECT_EQ(number_in<int64_t>("-1", 0, 9), std::nullopt);
}

}  // namespace
}  // namespace fovea::numbers_test
