#include "fovea/analysis/plot_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "fovea/base/strings.h"

namespace fovea::analysis::plot_text_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// The rows of the first panel's cells, from top to bottom, without labels and axis.
std::vector<std::string> cells(const std::string& text) {
  std::vector<std::string> rows;
  for (const std::string& line : split(text, '\n')) {
    const size_t axis = line.find_first_of("|+");
    if (axis == std::string::npos || line.find("--") != std::string::npos) {
      if (!rows.empty()) break;
      continue;
    }
    rows.push_back(line.substr(axis + 1));
  }
  return rows;
}

Plot rising() {
  return {.names = {"run"},
          .panels = {{"bleu", {{.name = 0, .points = {{0, 10}, {100, 20}, {200, 30}}, .marked = 2}}}},
          .x_title = "updates"};
}

TEST(TextPlot, ALineGoesFromCornerToCorner) {
  const std::string text = text_plot(rising(), 60);
  const std::vector<std::string> rows = cells(text);
  ASSERT_EQ(rows.size(), 14U);
  EXPECT_EQ(rows[13].substr(0, 1) == "*" || rows[12].substr(0, 1) == "*", true) << text;
  size_t before = std::string::npos;
  for (const std::string& row : rows) {  // a straight line: lower rows have earlier cells
    const size_t place = row.find('*');
    if (place == std::string::npos) continue;
    EXPECT_LT(place, before) << text;
    before = place;
  }
  EXPECT_THAT(text, HasSubstr("* run\n\nbleu\n"));
  EXPECT_THAT(text, HasSubstr("  * best 30 at 200\n"));
  EXPECT_THAT(text, HasSubstr(" updates\n"));
  for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 60U);
}

TEST(TextPlot, RunsHaveSignsOfTheirOwn) {
  Plot plot = rising();
  plot.names = {"a", "b"};
  plot.panels[0].curves.push_back({.name = 1, .points = {{0, 30}, {200, 30}}});
  const std::string text = text_plot(plot, 50);
  EXPECT_THAT(text, HasSubstr("* a   o b\n"));
  EXPECT_THAT(text, HasSubstr("oooooooo"));
  EXPECT_THAT(text, HasSubstr("*"));
}

TEST(TextPlot, GapsStayEmptyAndAxesSayThatTheyAreLogarithmic) {
  Plot plot = rising();
  plot.panels[0].curves[0] = {.name = 0,
                              .points = {{0, 1}, {100, std::numeric_limits<double>::quiet_NaN()}, {200, 1000}}};
  const std::string text = text_plot(plot, 60);
  EXPECT_THAT(text, HasSubstr("bleu (logarithmic)"));
  const std::vector<std::string> rows = cells(text);
  size_t signs = 0;
  for (const std::string& row : rows) signs += static_cast<size_t>(std::ranges::count(row, '*'));
  EXPECT_EQ(signs, 2U) << text;
}

TEST(TextPlot, OnePointAndNarrowTerminalsAreDrawn) {
  const Plot plot = {.names = {"run"}, .panels = {{"loss", {{.name = 0, .points = {{3, 2.5}}}}}}, .x_title = "updates"};
  EXPECT_THAT(text_plot(plot, 80), HasSubstr("*"));
  EXPECT_THAT(text_plot(plot, 1), HasSubstr("*"));
  EXPECT_THAT(text_plot(plot, 80), Not(HasSubstr("best")));
}

}  // namespace
}  // namespace fovea::analysis::plot_text_test
