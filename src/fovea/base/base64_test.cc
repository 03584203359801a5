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

TEST(Base64, GivesTheBytesBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(base64(bytes)), bytes);
    bytes.push_back(static_cast<char>(i * 89));
  }
}

TEST(Base64, OtherTextHasNoBytes) {
  // Not filled up, a character that is not a digit, too much filling, and bits behind the last byte.
  for (const char* const text : {"Zg", "Zg=", "Zm9v\n", "Zm 9", "====", "Z===", "Zh==", "Zm9=", "Zg==Zg=="})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace fovea::base64_test
