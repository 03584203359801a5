#include "fovea/kernels/routing/members.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "fovea/base/rng.h"

namespace fovea::kernels::members_test {
namespace {

using Rows = std::vector<int32_t>;

// Scores of [H, T, C] in one list.
template <class S>
ClusterScores<S> view(const std::vector<S>& scores, int64_t heads, int64_t clusters) {
  const int64_t each = std::ssize(scores) / heads;
  return {heads, each / clusters, clusters, [&scores, each](int64_t head) { return scores.data() + head * each; }};
}

Rows list(const MemberLists& lists, size_t l) {
  return {lists.rows.begin() + lists.offsets[l], lists.rows.begin() + lists.offsets[l + 1]};
}

TEST(Members, AreTheBestOfEachClusterInTheOrderOfTheText) {
  SerialExecutor executor;
  const std::vector<float> scores = {0.5F, 3, 2, 1, 1, 9, 4, 0};  // T = 4, C = 2
  const std::vector<TokenRange> all = {{0, 4}};
  const MemberLists lists = best_members(view(scores, 1, 2), all, 2, executor);
  ASSERT_EQ(lists.offsets, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(list(lists, 0), (Rows{1, 3}));
  EXPECT_EQ(list(lists, 1), (Rows{0, 2}));
}

TEST(Members, OfEqualScoresTheEarlier) {
  SerialExecutor executor;
  const std::vector<float> scores = {1, 2, 2, -0.0F, 2, 2, 0};
  const std::vector<TokenRange> all = {{0, 7}};
  EXPECT_EQ(list(best_members(view(scores, 1, 1), all, 3, executor), 0), (Rows{1, 2, 4}));
  EXPECT_EQ(list(best_members(view(scores, 1, 1), all, 6, executor), 0), (Rows{0, 1, 2, 3, 4, 5}));  // -0 is 0
}

// A row is token * H + head; each sequence has its own lists, a short one all of its tokens.
TEST(Members, OfHeadsAndSequencesApart) {
  SerialExecutor executor;
  const std::vector<float> scores = {5, 1, 2, 7, /* head 1: */ 1, 2, 3, 4};
  const std::vector<TokenRange> ranges = {{0, 3}, {3, 1}};
  const MemberLists lists = best_members(view(scores, 2, 1), ranges, 2, executor);
  ASSERT_EQ(lists.offsets, (std::vector<int64_t>{0, 2, 3, 5, 6}));
  EXPECT_EQ(list(lists, 0), (Rows{0, 4}));
  EXPECT_EQ(list(lists, 1), (Rows{6}));
  EXPECT_EQ(list(lists, 2), (Rows{3, 5}));
  EXPECT_EQ(list(lists, 3), (Rows{7}));
}

TEST(Members, NotFiniteScoresHaveAnOrder) {
  SerialExecutor executor;
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores(1000);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = i % 3 == 0 ? nan : i % 3 == 1 ? -infinity : infinity;
  const std::vector<TokenRange> all = {{0, 1000}};
  const MemberLists lists = best_members(view(scores, 1, 1), all, 500, executor);
  EXPECT_EQ(lists.rows.size(), 500U);
  EXPECT_TRUE(std::ranges::is_sorted(lists.rows));
  EXPECT_LT(rank_of(-infinity), rank_of(-1.0F));
  EXPECT_LT(rank_of(-1.0F), rank_of(0.0F));
  EXPECT_EQ(rank_of(-0.0F), rank_of(0.0F));
  EXPECT_LT(rank_of(1.0F), rank_of(infinity));
}

// The first `window` places of a stable sort, in the order of the text.
template <class S>
Rows defined_best(const std::vector<S>& column, int64_t window) {
  Rows places(column.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](int32_t a, int32_t b) { return column[size_t(a)] > column[size_t(b)]; });
  places.resize(std::min(places.size(), static_cast<size_t>(window)));
  std::ranges::sort(places);
  return places;
}

// Sizes around those at which a sample is taken, whole groups of columns and others, and columns in which the sample
// says nothing: rising, falling, many equal scores, all equal, and great ones at its places.
template <class S>
void expect_defined_best() {
  ThreadExecutor executor(2);
  Rng rng(5);
  for (const int64_t tokens : {1, 100, 1024, 1025, 3001}) {
    for (const int64_t clusters : {1, 5, 16, 37}) {
      std::vector<S> scores(static_cast<size_t>(2 * (tokens + 7) * clusters));
      std::set<int64_t> looked_at;  // rows of the second sequence: the places of a sample
      for (int64_t i = 0; i < 512; ++i) looked_at.insert(7 + i * tokens / 512);
      const auto score = [&](int64_t t, int64_t c) -> S {
        const S drawn = static_cast<S>(rng.normal());
        switch (c % 6) {
          case 0:
            return drawn * 10;
          case 1:
            return static_cast<S>(t);
          case 2:
            return -static_cast<S>(t);
          case 3:
            return static_cast<S>(rng.below(4));
          case 4:
            return 1;
          default:
            return looked_at.contains(t) ? 100 + drawn : drawn;
        }
      };
      for (int64_t row = 0; row < 2 * (tokens + 7); ++row)
        for (int64_t c = 0; c < clusters; ++c)
          scores[static_cast<size_t>(row * clusters + c)] = score(row % (tokens + 7), c);
      const std::vector<TokenRange> ranges = {{0, 7}, {7, tokens}};
      for (const int64_t window : {1, 8, 300, 1500}) {
        std::vector<int32_t> nearest;
        const MemberLists lists = best_members(view(scores, 2, clusters), ranges, window, executor, &nearest);
        EXPECT_EQ(nearest, nearest_clusters(view(scores, 2, clusters), executor));
        for (int64_t head = 0; head < 2; ++head) {
          for (int64_t c = 0; c < clusters; ++c) {
            std::vector<S> column;
            for (int64_t t = 7; t < 7 + tokens; ++t)
              column.push_back(scores[static_cast<size_t>((head * (tokens + 7) + t) * clusters + c)]);
            Rows right = defined_best(column, window);
            for (int32_t& place : right) place = static_cast<int32_t>((7 + place) * 2 + head);
            ASSERT_EQ(list(lists, static_cast<size_t>((head * 2 + 1) * clusters + c)), right)
                << tokens << " tokens, cluster " << c << " of " << clusters << ", window " << window;
          }
        }
      }
    }
  }
}

TEST(Members, AreTheFirstOfAStableSort) {
  expect_defined_best<float>();
  expect_defined_best<double>();
}

TEST(Members, OfTheNearestClusterEachTokenOnce) {
  SerialExecutor executor;
  const std::vector<float> scores = {1, 1, 0, 2, 3, 0, 5, 4};  // T = 4, C = 2; the first is a tie
  const std::vector<int32_t> nearest = nearest_clusters(view(scores, 1, 2), executor);
  EXPECT_EQ(nearest, (std::vector<int32_t>{0, 1, 0, 0}));
  const std::vector<TokenRange> ranges = {{0, 2}, {2, 2}};
  const MemberLists lists = nearest_members({nearest, 1, 2}, ranges, executor);
  EXPECT_EQ(list(lists, 0), (Rows{0}));
  EXPECT_EQ(list(lists, 1), (Rows{1}));
  EXPECT_EQ(list(lists, 2), (Rows{2, 3}));
  EXPECT_EQ(list(lists, 3), (Rows{}));
}

TEST(Members, AtRandomAreEquallyLikely) {
  ThreadExecutor executor(2);
  std::vector<uint64_t> streams(500);
  std::iota(streams.begin(), streams.end(), uint64_t{1});
  const std::vector<TokenRange> all = {{0, 20}};
  const MemberLists lists = random_members({streams, 4}, all, 5, executor);
  std::vector<int> counts(20);
  for (const int32_t row : lists.rows) ++counts[static_cast<size_t>(row / 500)];
  // 2,000 draws of 5 of 20: each token 500 times, with a standard deviation of about 19.
  for (const int count : counts) EXPECT_NEAR(count, 500, 100);
  EXPECT_EQ(random_members({streams, 4}, all, 5, executor).rows, lists.rows);
}

TEST(Members, TheBestPlacesOfAColumn) {
  const std::vector<uint32_t> ranks = {4, 9, 1, 9, 6, 9, 4, 9};  // column 0: 4 1 6 4
  EXPECT_EQ(best_places({ranks, 0, 2}, 2), (Rows{0, 2}));
  EXPECT_EQ(best_places({ranks, 0, 2}, 3), (Rows{0, 2, 3}));
  EXPECT_EQ(best_places({ranks, 0, 2}, 9), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(best_places({ranks, 1, 2}, 2), (Rows{0, 1}));
}

TEST(Members, PlacesLeadBack) {
  const Rows rows = {3, 0, 3, 1, 0, 3};
  const RowPlaces places = places_of(rows, 5);
  EXPECT_EQ(places.starts, (Rows{0, 2, 3, 3, 6, 6}));
  EXPECT_EQ(places.places, (Rows{1, 4, 3, 0, 2, 5}));
}

}  // namespace
}  // namespace fovea::kernels::members_test
