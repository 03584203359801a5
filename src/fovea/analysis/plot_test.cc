#include "fovea/analysis/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <set>

#include "fovea/base/strings.h"

namespace fovea::analysis::plot_test {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

Plot plot_of(std::vector<std::pair<double, double>> points) {
  return {.names = {"run"}, .panels = {{"loss", {{.name = 0, .points = std::move(points)}}}}, .x_title = "updates"};
}

TEST(PlotTicks, AreRoundNumbers) {
  EXPECT_THAT(linear_ticks(0, 600, 6), ElementsAre(0, 100, 200, 300, 400, 500, 600));
  EXPECT_THAT(linear_ticks(-0.35, 0.35, 6), ElementsAre(DoubleEq(-0.3), DoubleEq(-0.2), DoubleEq(-0.1), 0,
                                                        DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.3)));
  EXPECT_THAT(linear_ticks(9.2, 21, 6), ElementsAre(10, 12, 14, 16, 18, 20));
  EXPECT_THAT(linear_ticks(1e6, 4.1e6, 6), ElementsAre(1e6, 1.5e6, 2e6, 2.5e6, 3e6, 3.5e6, 4e6));
  EXPECT_THAT(log_ticks(0.9, 1200), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(log_ticks(3, 120), ElementsAre(5, 10, 20, 50, 100));
  EXPECT_LE(log_ticks(1e-30, 1e30).size(), 10U);
}

TEST(Plot, IsOneWholeSvg) {
  const std::string picture = svg(plot_of({{0, 3}, {100, 2}, {200, 1.5}}));
  EXPECT_TRUE(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width="));
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  for (const char* text : {">loss</text>", ">run</text>", ">updates</text>", ">200</text>", ">2.0</text>"})
    EXPECT_THAT(picture, HasSubstr(text));
  EXPECT_THAT(picture, Not(HasSubstr("nan")));
}

TEST(Plot, PutsPointsInProportion) {
  const std::string picture = svg(plot_of({{0, 0}, {50, 1}, {100, 0}}));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(picture, found,
                                std::regex("M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)\" fill")));
  std::vector<double> at;
  for (size_t i = 1; i < found.size(); ++i) at.push_back(std::stod(found[i]));
  // Rounded to a tenth of a pixel each.
  EXPECT_NEAR(at[2] - at[0], at[4] - at[2], 0.21);
  EXPECT_GT(at[2], at[0]);
  EXPECT_EQ(at[1], at[5]);
  EXPECT_LT(at[3], at[1]) << "y grows upwards";
}

TEST(Plot, LeavesAGapForAValueThatIsNotFinite) {
  EXPECT_EQ(count(svg(plot_of({{0, 1}, {1, 2}, {2, 3}, {3, 4}})), "fill=\"none\" stroke-linejoin"), 1U);
  EXPECT_EQ(count(svg(plot_of({{0, 1}, {1, 2}, {2, kNone}, {3, 4}})), "fill=\"none\" stroke-linejoin"), 2U);
  EXPECT_THAT(svg(plot_of({{0, kNone}})), HasSubstr("</svg>"));
}

// A cost of a damaged record; the ratio of such values overflows, and so does the number of digits.
TEST(Plot, DrawsAnyFiniteValue) {
  for (const auto& points : {std::vector<std::pair<double, double>>{{0, 1e-320}, {1, 5}},
                             {{0, 1e-320}},
                             {{0, 5e-324}, {1, 1e-300}},
                             {{0, 1e29}, {1, -1e29}},
                             {{0, 1e300}, {1, 2}},
                             {{1e-320, 1}, {1e29, 2}},
                             {{0, 1e-29}, {1, 1e29}}})
    EXPECT_EQ(count(svg(plot_of(points)), "nan|inf"), 0U);
}

TEST(Plot, DrawsOnePointAndEqualValues) {
  for (const auto& points : {std::vector<std::pair<double, double>>{{7, 7}}, {{0, 0}}, {{1, 2}, {2, 2}}, {{0, -3}}})
    EXPECT_EQ(count(svg(plot_of(points)), "nan|inf"), 0U);
}

TEST(Plot, ChoosesALogarithmicAxisForAWideRange) {
  EXPECT_THAT(svg(plot_of({{0, 900}, {1, 2}})), HasSubstr(">loss (logarithmic)<"));
  EXPECT_THAT(svg(plot_of({{0, 900}, {1, 0}})), HasSubstr(">loss<"));
  EXPECT_THAT(svg(plot_of({{0, 20}, {1, 2}})), HasSubstr(">loss<"));
}

TEST(Plot, ShowsTimeInASuitableUnit) {
  for (const auto& [seconds, unit] : {std::pair(90.0, "seconds"), {1800.0, "minutes"}, {80000.0, "hours"}}) {
    Plot plot = plot_of({{0, 1}, {seconds, 2}});
    plot.x_axis = PlotAxis::kSeconds;
    EXPECT_THAT(svg(plot), HasSubstr(cat(">updates (", unit, ")<")));
  }
}

TEST(Plot, GivesEachNameALookOfItsOwn) {
  Plot plot = {.names = {}, .panels = {{"loss", {}}}, .x_title = "x"};
  for (size_t i = 0; i < 20; ++i) {
    plot.names.push_back(cat("run-", i));
    plot.panels[0].curves.push_back({.name = i, .points = {{0, 1}, {1, 2}}});
  }
  const std::string picture = svg(plot);
  const std::regex stroke("stroke-linejoin=\"round\" (stroke=[^/]*)/>");
  std::set<std::string> looks;
  for (std::sregex_iterator at(picture.begin(), picture.end(), stroke), end; at != end; ++at) looks.insert((*at)[1]);
  EXPECT_EQ(looks.size(), 20U);
}

TEST(Plot, EscapesNames) {
  Plot plot = plot_of({{0, 1}});
  plot.names = {"a<b>&c\n"};
  EXPECT_THAT(svg(plot), HasSubstr(">a&lt;b&gt;&amp;c <"));
  plot.names = {"\xff"};
  EXPECT_THAT(svg(plot), HasSubstr("(not UTF-8)"));
}

TEST(Plot, KeepsTheExtremesOfLongCurves) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100000; ++i) points.emplace_back(i, i == 54321 ? 100.0 : std::sin(i));
  const std::string picture = svg(plot_of(points));
  EXPECT_LT(picture.size(), 60000U);
  // The peak is the only point within the upper half of the panel.
  const std::string without = svg(plot_of({{0, -1}, {54321, 100}, {99999, 1}}));
  std::smatch peak;
  ASSERT_TRUE(std::regex_search(without, peak, std::regex("L([0-9.]+ [0-9.]+)L")));
  EXPECT_THAT(picture, HasSubstr("L" + peak[1].str() + "L"));
}

}  // namespace
}  // namespace fovea::analysis::plot_test
