#include <gtest/gtest.h>

#include <set>

#include "fovea/kernels/attention/cpu/candidates.h"
#include "fovea/spec/testing/random_spec.h"

// The lowering of pairs that the CPU kernels work by: the tables hold the definition's pairs, each once, at a size that
// follows the pairs.
namespace fovea::kernels::plan_test {
namespace {

using PairSet = std::set<std::pair<int64_t, int64_t>>;  // query, key

int64_t key_of(const Candidates& table, const RowGroup& group, int64_t column) {
  const int32_t* list = table.list(group);
  return list ? list[column] : group.key_begin + column * group.key_step;
}

// Pairs of the hulls without the gaps, or of the keep list.
PairSet pairs_of(const Candidates& table, bool kept) {
  PairSet out;
  for (const RowGroup& group : table.groups) {
    for (int64_t r = 0; r < group.queries; ++r) {
      const int64_t query = group.first_query + r * group.query_step, row = group.row + r;
      std::vector<bool> in(static_cast<size_t>(group.columns), false);
      const auto set = [&](const ColumnRange& range, bool value) {
        for (int32_t c = range.begin; c < range.end; ++c) in.at(static_cast<size_t>(c)) = value;
      };
      if (kept) {
        for (const ColumnRange& range : table.keep.of(row)) set(range, true);
      } else {
        set(table.hull[static_cast<size_t>(row)], true);
        for (const ColumnRange& range : table.gaps.of(row)) set(range, false);
      }
      for (int64_t c = 0; c < group.columns; ++c) {
        if (!in[static_cast<size_t>(c)]) continue;
        EXPECT_TRUE(out.emplace(query, key_of(table, group, c)).second) << "twice: " << query << ", " << c;
      }
    }
  }
  return out;
}

PairSet by_definition(const AttentionProblem& problem, const Sequence& s, uint64_t stream, const Pairs& pairs) {
  PairSet out;
  for (int64_t i = 0; i < s.q_length; ++i) {
    const bool cross = problem.kind == AttentionKind::kCross;
    const Row row{cross ? i : i + s.k_length - s.q_length, s.k_length, problem.kind == AttentionKind::kCausal, stream};
    for (int64_t key = 0; key < s.k_length; ++key)
      if (contains(problem.spec.pairs(), row, key) && contains(pairs, row, key)) out.emplace(i, key);
  }
  return out;
}

void check(const AttentionSpec& spec, AttentionKind kind, const Sequence& s, uint64_t stream) {
  AttentionProblem problem;
  problem.spec = spec;
  problem.kind = kind;
  problem.sequences = {s};
  const Candidates table = lower(problem, s, stream);
  EXPECT_EQ(pairs_of(table, false), by_definition(problem, s, stream, spec.pairs()))
      << print(spec) << " " << s.q_length << "x" << s.k_length;
  if (!spec.keep) return;
  EXPECT_EQ(pairs_of(table, true), by_definition(problem, s, stream, *spec.keep)) << print(spec);
}

TEST(Plan, HoldsEveryPairOnce) {
  Rng rng(41);
  const std::vector<Sequence> lengths = {{0, 0, 0, 0},  {0, 1, 0, 1},   {0, 2, 0, 2},
                                         {0, 7, 0, 33}, {0, 33, 0, 33}, {0, 65, 0, 65}};
  for_each_type<Pattern>([&]<class P>(const P&) {
    for (int trial = 0; trial < 8; ++trial) {
      Pattern pattern;
      do pattern = random_pattern(rng, true);
      while (!std::holds_alternative<P>(pattern));
      AttentionSpec spec;
      spec.source = leaf(pattern);
      for (const Sequence& s : lengths)
        for (const auto kind : {AttentionKind::kSelf, AttentionKind::kCausal}) check(spec, kind, s, rng());
    }
  });
}

TEST(Plan, HoldsRandomTreesAndWhatTheyKeep) {
  Rng rng(42);
  for (int trial = 0; trial < 400; ++trial) {
    const auto keys = static_cast<int64_t>(rng.below(60));
    const bool cross = trial % 5 == 0;
    const auto queries = static_cast<int64_t>(rng.below(static_cast<uint64_t>(cross ? 60 : keys) + 1));
    const auto kind = cross ? AttentionKind::kCross : static_cast<AttentionKind>(rng.below(2));
    check(random_spec(rng, 3, !cross), kind, {0, queries, 0, keys}, rng());
  }
}

// Keys one by one, two million and more, are not held all at once.
TEST(Plan, HoldsManySingleKeys) {
  constexpr int64_t kLength = 3000;
  for (const char* text : {"strided(2)", "strided(2)|block(5)+topk(8,keep=window(3))"}) {
    AttentionProblem problem;
    problem.spec = parse_attention(text);
    problem.kind = AttentionKind::kCausal;
    const Candidates table = lower(problem, {0, kLength, 0, kLength}, 0);
    int64_t rows = 0;
    for (const RowGroup& group : table.groups) {
      for (int64_t r = 0; r < group.queries; ++r, ++rows) {
        const int64_t query = group.first_query + r * group.query_step, row = group.row + r;
        std::vector<char> in(static_cast<size_t>(kLength));
        const auto set = [&](const ColumnRange& range, char value) {
          for (int64_t c = range.begin; c < range.end; ++c) in[static_cast<size_t>(key_of(table, group, c))] = value;
        };
        set(table.hull[static_cast<size_t>(row)], 1);
        for (const ColumnRange& range : table.gaps.of(row)) set(range, 0);
        for (int64_t key = 0; key < kLength; ++key) {
          ASSERT_EQ(in[static_cast<size_t>(key)] == 1, contains(problem.spec.pairs(), {query, kLength, true, 0}, key))
              << text << " query " << query << " key " << key;
        }
      }
    }
    EXPECT_EQ(rows, kLength) << text;
  }
}

// 16,384 tokens, hundreds of keys each at most: tables of bytes in proportion to the pairs, not to n * n.
TEST(Plan, GrowsWithThePairs) {
  constexpr int64_t kLength = 16384;
  for (const char* text :
       {"window(64)", "dilated(16,8)", "block(64)", "blocks(64,1)", "global(2)&window(64)", "random(8)", "local(64)",
        "window(16)|random(4)", "window(32)&strided(4)", "fixed(128,1)&local(512)"}) {
    AttentionProblem problem;
    problem.spec = parse_attention(text);
    problem.kind = AttentionKind::kCausal;
    const Candidates table = lower(problem, {0, kLength, 0, kLength}, 7);
    int64_t pairs = 0;
    for (int64_t i = 0; i < kLength; ++i)
      for (const Span& span : spans(problem.spec.pairs(), {i, kLength, true, 7})) pairs += span.end - span.begin;
    EXPECT_LE(table.pairs, 3 * pairs + 64 * kLength) << text;
    EXPECT_LE(table.bytes(), 32 * pairs + 256 * kLength) << text;
  }
}

}  // namespace
}  // namespace fovea::kernels::plan_test
