#include "fovea/analysis/picture.h"

#include <gtest/gtest.h>

namespace fovea::analysis {
namespace {

TEST(Picture, ZerosAreDotsAndTheGreatestOfARowIsFull) {
  const AttentionPicture picture{.sources = {"ab", "ü"}, .targets = {"x", "Äpf"}, .weights = {1.0F, 0.0F, 0.1F, 0.4F}};
  EXPECT_EQ(draw(picture),
            "    a   \n"
            "    b ü \n"
            "  x ██· \n"
            "Äpf ▒▒██\n");
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
            "   x · ██· \n");
  const AttentionPicture marks{
      .sources = {"e\u0301z", "\u0915\u094d"}, .targets = {"a\u0308", "öo"}, .weights = {1, 0, 0, 1}};
  EXPECT_EQ(draw(marks),
            "   e\u0301   \n"
            "   z \u0915\u094d \n"
            " a\u0308 ██· \n"
            "öo · ██\n");
}

TEST(Picture, MarksDoNotCountInLongLabels) {
  std::string label;
  for (int i = 0; i < 16; ++i) label += "n\u0303";
  EXPECT_EQ(draw({.sources = {}, .targets = {label}, .weights = {}}), label + " \n");
}

TEST(Picture, NegativeWeightsAreNoZeros) {
  const AttentionPicture picture{.sources = {"a", "b", "c"}, .targets = {"x"}, .weights = {-0.4F, 0.0F, 0.1F}};
  EXPECT_EQ(draw(picture), "  a b c \nx -█· ▒▒\n");
}

TEST(Picture, NothingToDraw) { EXPECT_EQ(draw({}), ""); }

}  // namespace
}  // namespace fovea::analysis
