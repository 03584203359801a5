#include "fovea/analysis/picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fovea::analysis::picture_test {
namespace {

std::string legend(const std::string& greatest) {
  return "\n░ ▒ ▓ █ quarters of the greatest weight, " + greatest + "\n";
}

TEST(Picture, ZerosAreDotsAndTheGreatestWeightIsFull) {
  const AttentionPicture picture{.sources = {"ab", "ü"}, .targets = {"x", "Äpf"}, .weights = {1.0F, 0.0F, 0.1F, 0.4F}};
  EXPECT_EQ(draw(picture),
            "    a   \n"
            "    b ü \n"
            "  x ██· \n"
            "Äpf ░░▒▒\n" +
                legend("1.00"));
}

TEST(Picture, WeightsAboveOneAreScaledToTheGreatest) {
  const AttentionPicture picture{.sources = {"a", "b"}, .targets = {"x", "y", "z"}, .weights = {8, 5, 3, 1, 1, 0}};
  EXPECT_EQ(draw(picture), "  a b \nx ██▓▓\ny ▒▒░░\nz ░░· \n" + legend("8.00"));
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(draw({.sources = {"a", "b", "c"}, .targets = {"x"}, .weights = {infinite, 1, std::nanf("")}}),
            "  a b c \nx ██░░??\n" + legend("inf"));
  EXPECT_EQ(draw({.sources = {"a", "b"}, .targets = {"x"}, .weights = {0.02F, 0.004F}}),
            "  a b \nx ██░░\n" + legend("0.0200"));
}

TEST(Picture, LongLabelsAreCutByCharactersNotBytes) {
  const AttentionPicture picture{.sources = {"s"}, .targets = {"ääääääääääääääääääää"}, .weights = {0.0F}};
  EXPECT_EQ(draw(picture), "                 s \näääääääääääääää… · \n");
}

TEST(Picture, WideCharactersTakeTwoColumnsAndMarksNone) {
  const AttentionPicture wide{.sources = {"文件", "한", "a"}, .targets = {"ファ", "x"}, .weights = {1, 0, 0, 0, 1, 0}};
  EXPECT_EQ(draw(wide),
            "     文    \n"
            "     件한a \n"
            "ファ ██· · \n"
            "   x · ██· \n" +
                legend("1.00"));
  const AttentionPicture marks{
      .sources = {"e\u0301z", "\u0915\u094d"}, .targets = {"a\u0308", "öo"}, .weights = {1, 0, 0, 1}};
  EXPECT_EQ(draw(marks),
            "   e\u0301   \n"
            "   z \u0915\u094d \n"
            " a\u0308 ██· \n"
            "öo · ██\n" +
                legend("1.00"));
}

TEST(Picture, MarksDoNotCountInLongLabels) {
  std::string label;
  for (int i = 0; i < 16; ++i) label += "n\u0303";
  EXPECT_EQ(draw({.sources = {}, .targets = {label}, .weights = {}}), label + " \n");
}

TEST(Picture, NegativeWeightsAreNoZeros) {
  const AttentionPicture picture{.sources = {"a", "b", "c"}, .targets = {"x"}, .weights = {-0.4F, 0.0F, 0.1F}};
  EXPECT_EQ(draw(picture), "  a b c \nx -█· ▒▒\n\n░ ▒ ▓ █ quarters of the greatest weight in magnitude, 0.40\n");
}

TEST(Picture, NothingToDraw) { EXPECT_EQ(draw({}), ""); }

}  // namespace
}  // namespace fovea::analysis::picture_test
