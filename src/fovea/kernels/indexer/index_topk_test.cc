#include "fovea/kernels/indexer/index_topk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::index_topk_test {
namespace {

using testing::at_every_level;
using testing::normals;
using testing::Values;

constexpr int32_t kUntouched = -77;

struct Sizes {
  int64_t heads, head_dim, k_best;
  bool causal;
  std::vector<Sequence> sequences;

  int64_t queries() const { return sequences.empty() ? 0 : sequences.back().q_begin + sequences.back().q_length; }
  int64_t keys() const { return sequences.empty() ? 0 : sequences.back().k_begin + sequences.back().k_length; }
  int64_t limit(const Sequence& s, int64_t query) const {
    return causal ? std::clamp<int64_t>(query + 1 + s.k_length - s.q_length, 0, s.k_length) : s.k_length;
  }
};

template <class T>
struct Input {
  Values<T> q, k;
  std::vector<float> weights;
};

template <class T>
Input<T> random_input(const Sizes& at, uint64_t seed) {
  return {normals<T>(at.queries() * at.heads * at.head_dim, seed), normals<T>(at.keys() * at.head_dim, seed + 1),
          normals<float>(at.queries() * at.heads, seed + 2).kept};
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
  for (float& weight : in.weights) weight = std::round(weight);
  return in;
}

template <class T>
std::vector<int32_t> found(const Sizes& at, const Input<T>& in, Executor& executor) {
  std::vector<int32_t> out(static_cast<size_t>(at.queries() * at.k_best), kUntouched);
  IndexTopk job;
  job.q = in.q.kept.data(), job.k = in.k.kept.data(), job.weights = in.weights.data(), job.indices = out.data();
  job.dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kBFloat16;
  job.heads = at.heads, job.head_dim = at.head_dim, job.k_best = at.k_best, job.causal = at.causal;
  job.sequences = at.sequences;
  index_topk(job, executor);
  return out;
}

// The score from its definition, in double.
template <class T>
double score(const Sizes& at, const Input<T>& in, int64_t query, int64_t key) {
  double sum = 0;
  for (int64_t h = 0; h < at.heads; ++h) {
    const double* q = in.q.exact.data() + (query * at.heads + h) * at.head_dim;
    const double dot = std::inner_product(q, q + at.head_dim, in.k.exact.data() + key * at.head_dim, 0.0);
    sum += in.weights[static_cast<size_t>(query * at.heads + h)] * (dot < 0 ? 0 : dot);
  }
  return sum;
}

// work(query of all, its scores, its row of `out`) for each query.
template <class T, class Work>
void for_each_row(const Sizes& at, const Input<T>& in, const std::vector<int32_t>& out, const Work& work) {
  for (const Sequence& s : at.sequences) {
    for (int64_t i = 0; i < s.q_length; ++i) {
      std::vector<double> scores;
      for (int64_t t = 0; t < at.limit(s, i); ++t) scores.push_back(score(at, in, s.q_begin + i, s.k_begin + t));
      work(s.q_begin + i, scores, std::span(out).subspan((s.q_begin + i) * at.k_best, at.k_best));
    }
  }
}

// Ascending, without repetition, -1 behind.
void expect_well_formed(std::span<const int32_t> row, int64_t keys) {
  const int64_t chosen = std::min(std::ssize(row), keys);
  for (int64_t j = 0; j < std::ssize(row); ++j) {
    if (j >= chosen) {
      ASSERT_EQ(row[j], -1);
    } else {
      ASSERT_LT(row[j], keys);
      ASSERT_GT(row[j], j == 0 ? -1 : row[j - 1]);
    }
  }
}

// No key that was left out beats a chosen one by more than rounding.
template <class T>
void expect_best(const Sizes& at, const Input<T>& in, const std::vector<int32_t>& out) {
  for_each_row(at, in, out, [&](int64_t query, const std::vector<double>& scores, std::span<const int32_t> row) {
    SCOPED_TRACE(query);
    expect_well_formed(row, std::ssize(scores));
    std::vector<char> chosen(scores.size());
    double least = std::numeric_limits<double>::infinity(), most = -least, size = 0;
    for (const int32_t key : row) {
      if (key < 0) continue;
      chosen[static_cast<size_t>(key)] = 1;
      least = std::min(least, scores[static_cast<size_t>(key)]);
    }
    for (size_t t = 0; t < scores.size(); ++t) {
      if (chosen[t] == 0) most = std::max(most, scores[t]);
    }
    for (int64_t h = 0; h < at.heads; ++h) {
      size += std::abs(in.weights[static_cast<size_t>(query * at.heads + h)]) * static_cast<double>(at.head_dim) * 4;
    }
    ASSERT_LE(most, least + 0x1p-20 * size);
  });
}

// The best by a stable sort, where sums are exact.
template <class T>
void expect_exact(const Sizes& at, const Input<T>& in, const std::vector<int32_t>& out) {
  for_each_row(at, in, out, [&](int64_t query, const std::vector<double>& scores, std::span<const int32_t> row) {
    SCOPED_TRACE(query);
    std::vector<int32_t> want(scores.size());
    std::iota(want.begin(), want.end(), 0);
    std::ranges::stable_sort(want, std::greater(), [&](int32_t key) { return scores[static_cast<size_t>(key)]; });
    want.resize(std::min(want.size(), row.size()));
    std::ranges::sort(want);
    want.resize(row.size(), -1);
    ASSERT_TRUE(std::ranges::equal(want, row));
  });
}

const std::vector<Sizes> kSizes = {
    {4, 64, 32, true, {{0, 150, 0, 150}}},
    {1, 1, 1, true, {{0, 67, 0, 67}}},
    {3, 17, 7, true, {{0, 5, 0, 5}, {5, 0, 5, 3}, {5, 40, 8, 101}, {45, 1, 109, 1300}}},
    {130, 5, 3, false, {{0, 3, 0, 33}, {3, 2, 33, 0}, {5, 4, 33, 9}}},
    {2, 33, 100, true, {{0, 30, 0, 20}, {30, 130, 20, 700}}},  // queries before all keys
    {5, 24, 65, false, {{0, 70, 0, 400}}},
};

template <class T>
void check_sizes() {
  for (size_t i = 0; i < kSizes.size(); ++i) {
    SCOPED_TRACE(i);
    SerialExecutor serial;
    ThreadExecutor threads(3);
    const Input<T> in = random_input<T>(kSizes[i], 10 * i);
    const std::vector<int32_t> out = found(kSizes[i], in, serial);
    expect_best(kSizes[i], in, out);
    EXPECT_EQ(found(kSizes[i], in, threads), out);
    const Input<T> whole = whole_input<T>(kSizes[i], 10 * i + 5);
    expect_exact(kSizes[i], whole, found(kSizes[i], whole, serial));
  }
}

TEST(IndexTopk, AreTheBestScoresOfTheDefinition) {
  at_every_level([] { check_sizes<float>(); });
}
TEST(IndexTopk, InBfloat16) {
  at_every_level([] { check_sizes<uint16_t>(); });
}

TEST(IndexTopk, OfEqualScoresTheEarlierKeys) {
  const Sizes at{2, 3, 9, false, {{0, 2, 0, 900}}};
  Input<float> in = random_input<float>(at, 1);
  std::ranges::fill(in.weights, 0.0F);
  at_every_level([&] {
    SerialExecutor serial;
    const std::vector<int32_t> out = found(at, in, serial);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<int32_t>(i % 9));
  });
}

// Every key beats all before it: the lists are shortened again and again.
TEST(IndexTopk, OfRisingScoresTheLastKeys) {
  const Sizes at{1, 1, 40, true, {{0, 3, 0, 5000}}};
  Input<float> in = random_input<float>(at, 1);
  in.q.kept.assign(3, 1.0F), in.weights.assign(3, 1.0F);
  std::iota(in.k.kept.begin(), in.k.kept.end(), 1.0F);
  at_every_level([&] {
    SerialExecutor serial;
    const std::vector<int32_t> out = found(at, in, serial);
    for (int32_t i = 0; i < 120; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 4998 + i / 40 - 40 + i % 40);
  });
}

TEST(IndexTopk, NotFiniteScoresHaveAnOrder) {
  const Sizes at{1, 1, 3, false, {{0, 1, 0, 200}}};
  const float infinity = std::numeric_limits<float>::infinity();
  Input<float> in = random_input<float>(at, 1);
  std::ranges::fill(in.k.kept, 1.0F);
  in.q.kept = {1}, in.weights = {-1};
  in.k.kept[20] = infinity;                                  // score -infinity
  in.k.kept[150] = std::numeric_limits<float>::quiet_NaN();  // counts as infinity
  in.k.kept[199] = -5;                                       // score 0, above -1
  at_every_level([&] {
    SerialExecutor serial;
    EXPECT_EQ(found(at, in, serial), (std::vector<int32_t>{0, 150, 199}));
    Input<float> lowest = in;
    std::ranges::fill(lowest.k.kept, infinity);
    EXPECT_EQ(found(at, lowest, serial), (std::vector<int32_t>{0, 1, 2}));
  });
}

TEST(IndexTopk, DoNotDependOnOtherSequences) {
  const Sizes alone{3, 20, 16, true, {{0, 70, 0, 300}}};
  const Sizes together{3, 20, 16, true, {{0, 70, 0, 300}, {70, 33, 300, 50}}};
  const Input<float> in = random_input<float>(together, 3);
  Input<float> part = in;
  at_every_level([&] {
    SerialExecutor serial;
    std::vector<int32_t> first = found(together, in, serial);
    first.resize(70 * 16);
    EXPECT_EQ(found(alone, part, serial), first);
  });
}

}  // namespace
}  // namespace fovea::kernels::index_topk_test
