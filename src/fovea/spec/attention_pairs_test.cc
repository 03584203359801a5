#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "fovea/spec/testing/random_spec.h"

namespace fovea::attention_pairs_test {
namespace {

// The candidates of a row, written out by the definition.
std::set<int64_t> candidates(const Pairs& pairs, const Row& row) {
  std::set<int64_t> out;
  for (int64_t key = 0; key < row.keys; ++key)
    if (contains(pairs, row, key)) out.insert(key);
  return out;
}
std::set<int64_t> candidates(std::string_view text, int64_t query, int64_t keys, bool causal) {
  return candidates(parse_attention(text).pairs(), {query, keys, causal, 1});
}
using Keys = std::set<int64_t>;

TEST(Patterns, ByHand) {
  EXPECT_EQ(candidates("window(4)", 5, 10, false), (Keys{3, 4, 5, 6}));
  EXPECT_EQ(candidates("window(5)", 5, 10, false), (Keys{3, 4, 5, 6, 7}));
  EXPECT_EQ(candidates("window(4)", 5, 10, true), (Keys{2, 3, 4, 5}));
  EXPECT_EQ(candidates("window(4)", 0, 10, false), (Keys{0, 1}));
  EXPECT_EQ(candidates("window(4)", 9, 10, false), (Keys{7, 8, 9}));
  EXPECT_EQ(candidates("window(1)", 3, 10, false), (Keys{3}));
  EXPECT_EQ(candidates("dilated(4,3)", 6, 12, false), (Keys{0, 3, 6, 9}));
  EXPECT_EQ(candidates("dilated(3,2)", 5, 10, true), (Keys{1, 3, 5}));
  EXPECT_EQ(candidates("block(4)", 5, 10, false), (Keys{4, 5, 6, 7}));
  EXPECT_EQ(candidates("block(4)", 9, 10, false), (Keys{8, 9}));
  EXPECT_EQ(candidates("block(4)", 5, 10, true), (Keys{4, 5}));
  EXPECT_EQ(candidates("blocks(3,1)", 4, 12, false), (Keys{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(candidates("blocks(3,1)", 6, 12, true), (Keys{3, 4, 5, 6}));
  EXPECT_EQ(candidates("blocks(2,2)", 9, 12, false), (Keys{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(candidates("blocks(2,2)", 9, 12, true), (Keys{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(candidates("blocks(4,0)", 5, 10, false), (Keys{4, 5, 6, 7}));
  EXPECT_EQ(candidates("blocks(3,1)", -3, 10, false), (Keys{0, 1, 2}));  // positions -3 ... -1 are the block before 0
  EXPECT_EQ(candidates("blocks(3,1)", -4, 10, false), (Keys{}));
  EXPECT_EQ(candidates("global(2)", 5, 10, false), (Keys{0, 1}));
  EXPECT_EQ(candidates("global(2)", 1, 4, false), (Keys{0, 1, 2, 3}));
  EXPECT_EQ(candidates("global(2)", 1, 4, true), (Keys{0, 1}));
  EXPECT_EQ(candidates("global(2)", 0, 4, true), (Keys{0}));
  EXPECT_EQ(candidates("local(3)", 5, 10, false), (Keys{3, 4, 5}));
  EXPECT_EQ(candidates("others", 1, 4, false), (Keys{0, 2, 3}));
  EXPECT_EQ(candidates("others", 2, 4, true), (Keys{0, 1}));
  EXPECT_EQ(candidates("others", 0, 4, true), (Keys{}));
  EXPECT_EQ(candidates("strided(3)", 7, 10, false), (Keys{1, 4, 7}));
  EXPECT_EQ(candidates("fixed(4,1)", 9, 12, false), (Keys{3, 7, 8, 9}));
  EXPECT_EQ(candidates("fixed(4,4)", 9, 12, false), (Keys{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(candidates("full", 2, 4, true), (Keys{0, 1, 2}));
  EXPECT_EQ(candidates("window(3)|global(1)", 5, 10, false), (Keys{0, 4, 5, 6}));
  EXPECT_EQ(candidates("window(3)&block(2)", 5, 10, false), (Keys{4, 5}));
  EXPECT_EQ(candidates("window(2)", 0, 0, false), (Keys{}));
}

// The rows of figure 3 of Extremely Sparse Transformer in the middle of a text.
TEST(Patterns, AreThoseOfFigure3) {
  EXPECT_EQ(candidates("window(3)", 4, 9, false), (Keys{3, 4, 5}));
  EXPECT_EQ(candidates("dilated(3,2)", 4, 9, false), (Keys{2, 4, 6}));
  EXPECT_EQ(candidates("block(3)", 4, 9, false), (Keys{3, 4, 5}));
  EXPECT_EQ(candidates("global(2)", 4, 9, false), (Keys{0, 1}));
  EXPECT_EQ(candidates("global(2)", 1, 9, false).size(), 9U);
  EXPECT_EQ(candidates("window(2)", 4, 9, false), (Keys{3, 4})) << "of Big Bird, and of keep= in oow";
  const auto oow = parse_attention("oow(4)");
  EXPECT_EQ(candidates(*oow.keep, {4, 9, false, 1}), (Keys{3, 4}));
  const Keys bird = candidates("bigbird(8)", 30, 40, false);
  for (const int64_t key : {28, 29, 30, 31, 0, 1}) EXPECT_TRUE(bird.contains(key)) << key;
}

TEST(Patterns, SpansAreTheDefinition) {
  Rng rng(5);
  int64_t pairs_checked = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const Pairs pairs = random_pairs(rng, static_cast<int>(rng.below(4)));
    const auto keys = static_cast<int64_t>(rng.below(40));
    // If there are more queries than keys, the first queries stand before all keys.
    const Row row{static_cast<int64_t>(rng.below(static_cast<uint64_t>(keys) + 6)) - 5, keys, rng.below(2) == 0, rng()};
    std::set<int64_t> covered;
    int64_t previous_end = -1;
    for (const Span& span : spans(pairs, row)) {
      EXPECT_LT(span.begin, span.end);
      EXPECT_GT(span.begin, previous_end) << "touching or unsorted";
      previous_end = span.end;
      for (int64_t key = span.begin; key < span.end; ++key) covered.insert(key);
    }
    EXPECT_EQ(covered, candidates(pairs, row)) << print(pairs) << " query " << row.query << " of " << keys;
    pairs_checked += static_cast<int64_t>(covered.size());
  }
  EXPECT_GT(pairs_checked, 10000);
}

TEST(Patterns, CausalIsTheLimitOfTheLayer) {
  Rng rng(6);
  for (int trial = 0; trial < 1000; ++trial) {
    const Pairs pairs = random_pairs(rng, 2);
    const Row row{static_cast<int64_t>(rng.below(20)), 20, true, rng()};
    for (const int64_t key : candidates(pairs, row)) EXPECT_LE(key, row.query);
  }
}

TEST(Patterns, HugeArgumentsCostNothing) {
  for_each_type<Pattern>([]<class P>(P pattern) {
    std::apply([&](const auto&... field) { ((pattern.*field.member = kMaxArgument), ...); }, P::fields());
    if constexpr (requires { pattern.problem(); }) {
      if (!pattern.problem().empty()) return;
    }
    const Pairs pairs{Pairs::Op::kLeaf, pattern, {}};
    for (const bool causal : {false, true}) {
      const Row row{7, 16, causal, 1};
      std::set<int64_t> covered;
      for (const Span& span : spans(pairs, row))
        for (int64_t key = span.begin; key < span.end; ++key) covered.insert(key);
      EXPECT_EQ(covered, candidates(pairs, row)) << P::kName;
    }
  });
}

TEST(RandomKeys, DistinctSortedAndOfTheRightNumber) {
  for (int64_t limit = 0; limit < 30; ++limit) {
    for (int64_t k = 1; k < 35; ++k) {
      const std::vector<int64_t> keys = random_keys(k, limit, 4, limit * 100 + k);
      EXPECT_EQ(static_cast<int64_t>(keys.size()), std::min(k, limit));
      EXPECT_EQ(std::set<int64_t>(keys.begin(), keys.end()).size(), keys.size());
      EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
      EXPECT_TRUE(keys.empty() || (keys.front() >= 0 && keys.back() < limit));
    }
  }
}

// Each of 20 keys is drawn with probability 5/20; over 4000 independent rows the count is binomial, and the largest
// deviation among 20 such counts passes 5 standard deviations with probability 1e-5. The draw is fixed by the seed.
TEST(RandomKeys, EveryKeyIsAsLikely) {
  std::vector<int> count(20);
  constexpr int kRows = 4000;
  for (int row = 0; row < kRows; ++row)
    for (const int64_t key : random_keys(5, 20, 99, row)) ++count[static_cast<size_t>(key)];
  const double sigma = std::sqrt(kRows * 0.25 * 0.75);
  for (const int c : count) EXPECT_LT(std::abs(c - kRows * 0.25), 5 * sigma);
}

TEST(RandomKeys, RowsAndStreamsDiffer) {
  EXPECT_NE(random_keys(8, 1000, 1, 0), random_keys(8, 1000, 1, 1));
  EXPECT_NE(random_keys(8, 1000, 1, 0), random_keys(8, 1000, 2, 0));
  EXPECT_EQ(random_keys(8, 1000, 1, 7), random_keys(8, 1000, 1, 7));
}

// The properties that a struct declares: pairs depend on the stream if it draws, and only then; if it neither draws nor
// compares positions, all queries have the same pairs.
TEST(Patterns, AreWhatTheySayTheyAre) {
  Rng rng(12);
  std::vector<bool> by_stream(std::variant_size_v<Pattern>), by_query = by_stream;
  for (int trial = 0; trial < 3000; ++trial) {
    const Pairs pairs{Pairs::Op::kLeaf, random_pattern(rng, /*positional=*/true), {}};
    const Row row{static_cast<int64_t>(rng.below(40)), 40, rng.below(2) == 0, 1};
    const Row other{row.query, row.keys, row.causal, 2}, next{row.query + 1, row.keys, false, 1};
    if (spans(pairs, row) != spans(pairs, other)) by_stream[pairs.leaf.index()] = true;
    if (!row.causal && spans(pairs, row) != spans(pairs, next)) by_query[pairs.leaf.index()] = true;
  }
  size_t at = 0;
  for_each_type<Pattern>([&]<class P>(const P&) {
    EXPECT_EQ(by_stream[at], P::kDraws) << P::kName;
    EXPECT_TRUE(!by_query[at] || P::kPositional || P::kDraws) << P::kName;
    ++at;
  });
}

TEST(Patterns, SayWhetherTheyDrawKeys) {
  EXPECT_TRUE(uses_random(parse_attention("window(3)|random(2)").pairs()));
  EXPECT_TRUE(uses_random(parse_attention("topk(3,keep=random(2))")));
  EXPECT_FALSE(uses_random(parse_attention("topk(3,keep=random(2))").pairs()));
  EXPECT_FALSE(uses_random(parse_attention("window(3)|global(1)+topk(3,keep=window(2))")));
  EXPECT_TRUE(uses_random(parse_layer_spec("4*full;4*(window(9)|random(1))&local(7)")));
  EXPECT_FALSE(uses_random(parse_layer_spec("4*full;4*relu")));
}

}  // namespace
}  // namespace fovea::attention_pairs_test
