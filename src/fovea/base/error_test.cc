#include "fovea/base/error.h"

#include <gtest/gtest.h>

namespace fovea::error_test {
namespace {

// Names in a stranger's file are quoted as they are.
TEST(Error, IsOneLine) {
  EXPECT_STREQ(Error("tensor 'a\r\nb\x1b[31m\x7f\tc' \u00e4").what(), "tensor 'a  b [31m  c' \u00e4");
  EXPECT_STREQ(UsageError("spec, column 1\n  x\n  ^").what(), "spec, column 1\n  x\n  ^");
}

TEST(Error, HasNothingThatATerminalObeys) {
  EXPECT_EQ(one_line("a\u009b2Jb\u0085c\u0080"), "a 2Jb c ") << "C1 controls";
  EXPECT_EQ(one_line("a\x9b"
                     "2Jb"),
            "a 2Jb")
      << "C1 controls as single bytes";
  EXPECT_EQ(one_line("a\u202egpj.exe\u202c \u2066b\u2069"), "a gpj.exe   b ") << "reordered text";
  EXPECT_EQ(one_line("a\u2028b\u2029c"), "a b c") << "line ends";
}

TEST(Error, KeepsText) {
  for (const char* text : {"\u00c0 \u00ff \u4f60\u597d \U0001f600 \u05e9\u05dc\u05d5\u05dd \u200f\u200d \u2027\u202f",
                           "\u0421\u0411 \u00db", "caf\xe9", "\xff", "\xe4\xbd", ""})
    EXPECT_EQ(one_line(text), text);
}

}  // namespace
}  // namespace fovea::error_test
