#include "fovea/analysis/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fovea/base/rng.h"

namespace fovea::analysis::distribution_test {
namespace {

// Scores with many ties.
std::vector<double> random_scores(Rng& rng, size_t count, double shift) {
  std::vector<double> scores(count);
  for (double& score : scores) score = shift + static_cast<double>(rng.below(20));
  return scores;
}

TEST(AreaUnderCurve, IsTheShareOfPairsInOrder) {
  Rng rng(1);
  for (const double shift : {0.0, 3.0, -7.0}) {
    const std::vector<double> good = random_scores(rng, 60, shift), bad = random_scores(rng, 45, 0);
    double won = 0;
    for (const double a : good) {
      for (const double b : bad) won += a > b ? 1 : a == b ? 0.5 : 0;
    }
    EXPECT_DOUBLE_EQ(area_under_curve(good, bad), won / (60 * 45));
  }
  const std::vector<double> low = {1, 2}, high = {3, 4};
  EXPECT_EQ(area_under_curve(high, low), 1);
  EXPECT_EQ(area_under_curve(low, high), 0);
  EXPECT_EQ(area_under_curve(low, low), 0.5);
}

TEST(Summarize, OfKnownScores) {
  std::vector<double> scores(101);
  std::iota(scores.begin(), scores.end(), 0.0);
  std::ranges::reverse(scores);
  const Summary summary = summarize(scores);
  EXPECT_EQ(summary.count, 101);
  EXPECT_EQ(summary.mean, 50);
  EXPECT_NEAR(summary.deviation, 29.154759474226502, 1e-12);  // sqrt((101^2 - 1) / 12)
  EXPECT_EQ(summary.minimum, 0);
  EXPECT_DOUBLE_EQ(summary.p5, 5);
  EXPECT_DOUBLE_EQ(summary.p25, 25);
  EXPECT_DOUBLE_EQ(summary.median, 50);
  EXPECT_DOUBLE_EQ(summary.p75, 75);
  EXPECT_DOUBLE_EQ(summary.p95, 95);
  EXPECT_EQ(summary.maximum, 100);
  EXPECT_DOUBLE_EQ(summarize(std::vector<double>{1, 2}).median, 1.5);
  EXPECT_EQ(summarize({}).count, 0);
  EXPECT_EQ(summarize(std::vector<double>{-3}).p95, -3);
}

TEST(Histogram, CountsEveryScoreOnce) {
  const std::vector<double> scores = {0, 0.5, 0.99, 1, 9.99, 10, 5};
  const Bins bins = bins_of(scores, 10);
  EXPECT_EQ(bins.low, 0);
  EXPECT_EQ(bins.high, 10);
  EXPECT_EQ(bins.edge(0), 0);
  EXPECT_EQ(bins.edge(3), 3);
  EXPECT_EQ(bins.edge(10), 10);
  EXPECT_EQ(histogram(scores, bins), (std::vector<int64_t>{3, 1, 0, 0, 0, 1, 0, 0, 0, 2}));
  EXPECT_EQ(histogram(std::vector<double>{-4, 40}, bins), (std::vector<int64_t>{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(Histogram, OfOneValueOrNone) {
  const std::vector<double> same = {2, 2, 2};
  EXPECT_EQ(histogram(same, bins_of(same, 3)), (std::vector<int64_t>{3, 0, 0}));
  EXPECT_EQ(histogram({}, bins_of({}, 2)), (std::vector<int64_t>{0, 0}));
}

TEST(Bar, ShowsWhateverIsThere) {
  EXPECT_EQ(bar(0, 10, 5), "");
  EXPECT_EQ(bar(1, 1000, 5), "#");
  EXPECT_EQ(bar(5, 10, 4), "##");
  EXPECT_EQ(bar(10, 10, 4), "####");
}

TEST(BestOf, KeepsTheFirstOfEqualScores) {
  const std::vector<double> scores = {1, 3, 2, 3, 2, 2};
  EXPECT_EQ(best_of(scores, 3), (std::vector<bool>{false, true, true, true, false, false}));
  EXPECT_EQ(best_of(scores, 0), std::vector<bool>(6));
  EXPECT_EQ(best_of(scores, 6), std::vector<bool>(6, true));
  EXPECT_TRUE(best_of({}, 0).empty());
}

}  // namespace
}  // namespace fovea::analysis::distribution_test
