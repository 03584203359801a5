#include "fovea/base/empty_line.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea::empty_line_test {
namespace {

TEST(EmptyLine, HasNoVisibleText) {
  for (const std::string line : {"", " ", "\t \r", "\u00a0\u3000\u202f", "\u00ad", "\u200b\u200c\u200d\u2060", "\ufeff",
                                 "\u200e\u200f\u202a\u2069", "\ufe0f", "\U000e0100", "\u061c", "\u180e",
                                 "\x01\x7f\u0085\u009b", "\u2028", "\u3164\u115f", "\u2581", "\u2800"})
    EXPECT_TRUE(is_empty_line(line)) << line;
  EXPECT_TRUE(is_empty_line(std::string("\0\0", 2)));
  for (const std::string line : {"a", " . ", "\u3000\u3002", "\u200bx", "\u0301", "\u4f60", "\U0001f600\ufe0f",
                                 "\ufffd", "\xff", "\xe2\x80", "\u0600", "\ufffc", "\ue000", "\u2582"})
    EXPECT_FALSE(is_empty_line(line)) << line;
}

TEST(EmptyLine, UnseenCharactersAreWhole) {
  EXPECT_EQ(unseen_size(" a"), 1U);
  EXPECT_EQ(unseen_size("\u00ada"), 2U);
  EXPECT_EQ(unseen_size("\u3000\u3000"), 3U);
  EXPECT_EQ(unseen_size("\U000e0100"), 4U);
  EXPECT_EQ(unseen_size("\xe3\x80"), 0U);
  EXPECT_EQ(unseen_size("a "), 0U);
  EXPECT_EQ(unseen_size(""), 0U);
}

}  // namespace
}  // namespace fovea::empty_line_test
