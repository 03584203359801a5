#include "fovea/base/error.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

// Names in a stranger's file are quoted as they are.
TEST(Error, IsOneLine) {
  EXPECT_STREQ(Error("tensor 'a\r\nb\x1b[31m\x7f\tc' \u00e4").what(), "tensor 'a  b [31m  c' \u00e4");
  EXPECT_STREQ(UsageError("spec, column 1\n  x\n  ^").what(), "spec, column 1\n  x\n  ^");
}

}  // namespace
}  // namespace fovea
