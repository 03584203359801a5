#include "fovea/kernels/indexer/block_topk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::block_topk_test {
namespace {

using testing::at_every_level;
using testing::normals;
using testing::Values;

struct Sizes {
  int64_t heads, key_heads, head_dim, block, best;
  BlockScore score;
  bool causal;
  std::vector<Sequence> sequences;

  int64_t queries() const { return sequences.back().q_begin + sequences.back().q_length; }
  int64_t keys() const { return sequences.back().k_begin + sequences.back().k_length; }
};

template <class T>
struct Input {
  Values<T> q, k;
};

template <class T>
Input<T> random_input(const Sizes& at, uint64_t seed) {
  return {normals<T>(at.queries() * at.heads * at.head_dim, seed),
          normals<T>(at.keys() * at.key_heads * at.head_dim, seed + 1)};
}

// Small whole numbers: sums are exact in float, and many are equal.
template <class T>
Input<T> whole_input(const Sizes& at, uint64_t seed) {
  Input<T> in = random_input<T>(at, seed);
  for (Values<T>* values : {&in.q, &in.k}) {
    for (size_t i = 0; i < values->kept.size(); ++i) {
      values->kept[i] = testing::narrowed<T>(std::round(values->exact[i]));
      values->exact[i] = testing::widened(values->kept[i]);
    }
  }
  return in;
}

template <class T>
BlockLists found(const Sizes& at, const Input<T>& in, Executor& executor) {
  BlockTopk job;
  job.q = {in.q.kept.data(), at.heads * at.head_dim, at.head_dim};
  job.k = {in.k.kept.data(), at.key_heads * at.head_dim, at.head_dim};
  job.dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kBFloat16;
  job.heads = at.heads, job.keys.share = at.heads / at.key_heads, job.head_dim = at.head_dim;
  job.block = at.block, job.best = at.best, job.score = at.score, job.causal = at.causal;
  job.sequences = at.sequences;
  return block_topk(job, executor);
}

// The score from its definition, in double; `size` becomes the sum of the
// magnitudes that it adds.
template <class T>
double score(const Sizes& at, const Input<T>& in, const Sequence& s, int64_t token, int64_t head, int64_t block,
             double& size) {
  const int64_t key_head = head / (at.heads / at.key_heads);
  const int64_t first = block * at.block, end = std::min(first + at.block, s.k_length);
  double total = 0;
  size = 0;
  for (int64_t c = 0; c < at.head_dim; ++c) {
    const double q = in.q.exact[static_cast<size_t>((token * at.heads + head) * at.head_dim + c)];
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low, magnitude = 0;
    for (int64_t t = first; t < end; ++t) {
      const int64_t row = (s.k_begin + t) * at.key_heads + key_head;
      const double key = in.k.exact[static_cast<size_t>(row * at.head_dim + c)];
      sum += key, low = std::min(low, key), high = std::max(high, key), magnitude += std::abs(key);
    }
    total += at.score == BlockScore::kMean ? q * sum / static_cast<double>(end - first) : std::max(q * low, q * high);
    size += std::abs(q) * magnitude;
  }
  return total;
}

// Each list is ascending, holds the query's own block and no later one if
// causal, and no block that was left out beats a chosen one by more than
// rounding. Where sums are exact, the choice is that of a sort, with all that
// tie.
template <class T>
void expect_chosen(const Sizes& at, const Input<T>& in, const BlockLists& out, bool exact) {
  ASSERT_EQ(std::ssize(out.blocks), at.queries() * at.heads * out.count);
  for (const Sequence& s : at.sequences) {
    const int64_t blocks = (s.k_length + at.block - 1) / at.block;
    for (int64_t i = 0; i < s.q_length; ++i) {
      for (int64_t head = 0; head < at.heads; ++head) {
        SCOPED_TRACE(::testing::PrintToString(std::tuple(s.q_begin, i, head)));
        const int32_t* row = out.blocks.data() + ((s.q_begin + i) * at.heads + head) * out.count;
        const int64_t count = std::find(row, row + out.count, -1) - row;
        ASSERT_TRUE(std::all_of(row + count, row + out.count, [](int32_t m) { return m == -1; }));
        ASSERT_TRUE(std::is_sorted(row, row + count) && std::adjacent_find(row, row + count) == row + count);
        const int64_t position = i + s.k_length - s.q_length;
        if (position < 0 || s.k_length == 0) {
          ASSERT_EQ(count, 0);
          continue;
        }
        const int64_t own = position / at.block, end = at.causal ? own + 1 : blocks;
        ASSERT_TRUE(std::find(row, row + count, own) != row + count);
        ASSERT_LT(row[count - 1], end);
        std::vector<double> others;
        double least = std::numeric_limits<double>::infinity(), most = -least, size = 0, largest = 0;
        for (int64_t m = 0; m < end; ++m) {
          if (m == own) continue;
          const double value = score(at, in, s, s.q_begin + i, head, m, size);
          largest = std::max(largest, size);
          others.push_back(value);
          const bool is_chosen = std::find(row, row + count, m) != row + count;
          is_chosen ? static_cast<void>(least = std::min(least, value))
                    : static_cast<void>(most = std::max(most, value));
        }
        ASSERT_LE(most, least + 0x1p-20 * largest);
        ASSERT_GE(count, std::min<int64_t>(at.best, end));
        std::ranges::sort(others, std::greater());
        const auto wanted = static_cast<size_t>(at.best - 1);
        if (!exact || wanted == 0 || others.size() <= wanted) continue;
        const auto ties = std::ranges::count_if(others, [&](double x) { return x >= others[wanted - 1]; });
        ASSERT_EQ(count, 1 + ties);
      }
    }
  }
}

std::vector<Sizes> sizes() {
  std::vector<Sizes> all;
  for (const BlockScore score : {BlockScore::kMean, BlockScore::kBounds}) {
    for (const bool causal : {true, false}) {
      all.push_back({2, 2, 17, 4, 3, score, causal, {{0, 50, 0, 50}}});
      all.push_back(
          {6, 2, 33, 5, 2, score, causal, {{0, 3, 0, 3}, {3, 7, 3, 101}, {10, 1, 104, 400}, {11, 130, 504, 130}}});
      all.push_back({1, 1, 64, 1, 9, score, causal, {{0, 150, 0, 150}}});
      all.push_back({3, 1, 1, 8, 1, score, causal, {{0, 30, 0, 20}, {30, 4, 20, 0}, {34, 40, 20, 900}}});
      all.push_back({1, 1, 8, 64, 99, score, causal, {{0, 300, 0, 300}}});
    }
  }
  return all;
}

template <class T>
void check_sizes() {
  uint64_t seed = 0;
  for (const Sizes& at : sizes()) {
    seed += 10;
    SCOPED_TRACE(seed);
    SerialExecutor serial;
    ThreadExecutor threads(3);
    const Input<T> in = random_input<T>(at, seed);
    const BlockLists out = found(at, in, serial);
    expect_chosen(at, in, out, false);
    EXPECT_EQ(found(at, in, threads).blocks, out.blocks);
    // Means of whole numbers are exact in blocks of a power of two.
    const Input<T> whole = whole_input<T>(at, seed + 5);
    expect_chosen(at, whole, found(at, whole, serial),
                  at.score == BlockScore::kBounds || (at.block & (at.block - 1)) == 0);
  }
}

TEST(BlockTopk, AreTheBestBlocksOfTheDefinition) {
  at_every_level([] { check_sizes<float>(); });
}
TEST(BlockTopk, InBfloat16) {
  at_every_level([] { check_sizes<uint16_t>(); });
}

TEST(BlockTopk, EqualScoresAreAllChosen) {
  const Sizes at{1, 1, 3, 2, 3, BlockScore::kMean, true, {{0, 12, 0, 12}}};
  Input<float> in = random_input<float>(at, 1);
  std::ranges::fill(in.q.kept, 0.0F);
  at_every_level([&] {
    SerialExecutor serial;
    const BlockLists out = found(at, in, serial);
    EXPECT_EQ(out.count, 6);
    EXPECT_EQ(std::vector<int32_t>(out.blocks.end() - 6, out.blocks.end()), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  });
}

TEST(BlockTopk, NaNIsNotHidden) {
  const Sizes at{1, 1, 2, 2, 2, BlockScore::kMean, true, {{0, 10, 0, 10}}};
  for (const BlockScore score : {BlockScore::kMean, BlockScore::kBounds}) {
    Sizes own = at;
    own.score = score;
    Input<float> in = random_input<float>(own, 3);
    std::ranges::fill(in.q.kept, 1.0F);
    std::ranges::fill(in.k.kept, 1.0F);
    in.k.kept[5] = std::numeric_limits<float>::quiet_NaN();  // of block 1
    in.k.kept[8] = -std::numeric_limits<float>::infinity();  // of block 2
    at_every_level([&] {
      SerialExecutor serial;
      const BlockLists out = found(own, in, serial);
      ASSERT_EQ(out.count, 2);
      EXPECT_EQ(out.blocks[18], 1);
      EXPECT_EQ(out.blocks[19], 4);
    });
  }
}

// A sequence's lists do not depend on the others, nor a query's on those before
// it in the call, as in steps of a cache.
TEST(BlockTopk, AQueryAloneChoosesTheSame) {
  const Sizes all{4, 2, 24, 4, 3, BlockScore::kMean, true, {{0, 70, 0, 70}, {70, 33, 70, 33}}};
  const Input<float> in = random_input<float>(all, 9);
  at_every_level([&] {
    SerialExecutor serial;
    const BlockLists together = found(all, in, serial);
    ASSERT_EQ(together.count, 3);
    for (const int64_t t : {0, 5, 32, 69}) {
      Sizes alone = all;
      alone.sequences = {{t, 1, 0, t + 1}};
      const BlockLists one = found(alone, in, serial);
      for (int64_t head = 0; head < 4; ++head) {
        for (int64_t e = 0; e < one.count; ++e)
          EXPECT_EQ(one.blocks[(t * 4 + head) * one.count + e], together.blocks[(t * 4 + head) * 3 + e]);
      }
    }
  });
}

}  // namespace
}  // namespace fovea::kernels::block_topk_test
