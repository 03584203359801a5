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

TEST(Picture, NegativeWeightsAreNoZeros) {
  const AttentionPicture picture{.sources = {"a", "b", "c"}, .targets = {"x"}, .weights = {-0.4F, 0.0F, 0.1F}};
  EXPECT_EQ(draw(picture), "  a b c \nx -█· ▒▒\n");
}

TEST(Picture, NothingToDraw) { EXPECT_EQ(draw({}), ""); }

}  // namespace
}  // namespace fovea::analysis
