#include "fovea/analysis/picture_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fovea::analysis::picture_svg_test {
namespace {

using testing::HasSubstr;
using testing::Not;

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const AttentionPicture kSmall = {.sources = {"\u2581cat", "\u2581a", "</s>"},
                                 .targets = {"\u2581Katze", "."},
                                 .weights = {1, 0, 0, 0, 0.25F, 0.75F}};

TEST(PictureSvg, ZerosHaveAColourOfTheirOwn) {
  const std::string svg = picture_svg(kSmall, "title", "caption");
  constexpr const char* kZeroCell = "fill=\"#f6e4cb\"";
  // Neighbours of one colour are one rectangle: two zeros of the first row, one of the second, and the legend.
  EXPECT_EQ(count(svg, kZeroCell), 3);
  EXPECT_THAT(svg, HasSubstr(">exactly 0<"));
  EXPECT_THAT(svg, HasSubstr(">above 0, up to 1.00<"));
  const AttentionPicture dense = {.sources = {"a"}, .targets = {"b"}, .weights = {0.5F}};
  EXPECT_THAT(picture_svg(dense, "", ""), Not(HasSubstr("exactly 0")));
}

TEST(PictureSvg, LabelsAreWordsAndOneLetterStandsUpright) {
  const std::string svg = picture_svg(kSmall, "title", "caption");
  EXPECT_THAT(svg, HasSubstr(">Katze<"));
  EXPECT_THAT(svg, HasSubstr("rotate(-90)\">cat<"));
  EXPECT_THAT(svg, Not(HasSubstr("rotate(-90)\">a<")));
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"middle\">a<"));
  EXPECT_THAT(svg, HasSubstr("rotate(-90)\">&lt;/s&gt;<"));
  EXPECT_THAT(svg, Not(HasSubstr("\u2581")));
}

TEST(PictureSvg, EscapesTexts) {
  const std::string svg = picture_svg({.sources = {"<b>"}, .targets = {"&"}, .weights = {1}}, "<i>", "\"");
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("<i>")));
  EXPECT_THAT(svg, HasSubstr(">&amp;<"));
}

TEST(PictureSvg, NothingToDraw) { EXPECT_THAT(picture_svg({}, "", ""), HasSubstr("</svg>")); }

}  // namespace
}  // namespace fovea::analysis::picture_svg_test
