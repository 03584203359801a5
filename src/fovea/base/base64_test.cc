#include "fovea/base/base64.h"

#include <gtest/gtest.h>

namespace fovea::base64_test {
namespace {

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");  // RFC 4648
  EXPECT_EQ(base64(std::string_view("\xff\xfe\x00", 3)), "//4A");
}

}  // namespace
}  // namespace fovea::base64_test
