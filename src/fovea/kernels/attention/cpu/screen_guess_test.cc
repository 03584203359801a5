#include "fovea/kernels/attention/cpu/screen_guess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_ops.h"
#include "fovea/kernels/attention/cpu/screen_search.h"
#include "fovea/kernels/attention/cpu/screened_score_test.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

namespace fovea::kernels::screen_guess_test {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

constexpr float kNone = -std::numeric_limits<float>::infinity();

ScoreMoments moments(float mean, float deviation) { return {mean, deviation, mean + 2 * deviation}; }

void teach(ThresholdGuess& guess, double height, double spread) {
  for (int row = 0; row < 48; ++row) {
    const float mean = 0.1F * static_cast<float>(row), deviation = 1 + 0.5F * static_cast<float>(row);
    const double at = height + (row % 2 == 0 ? spread : -spread);
    guess.add(moments(mean, deviation), static_cast<float>(mean + at * deviation));
  }
  guess.learn();
}

TEST(ThresholdGuess, FollowsEarlierRows) {
  ThresholdGuess guess;
  EXPECT_EQ(guess.of(moments(0, 1)), kNone);
  teach(guess, 2.5, 0);
  EXPECT_NEAR(guess.of(moments(-3, 2)), 2, 1e-4);  // -3 + 2.5 * 2
  teach(guess, 2.5, 0.4);
  EXPECT_LT(guess.of(moments(0, 1)), 2.5 - 0.4);  // below all rows but rare ones
  for (int round = 0; round < 60; ++round) teach(guess, 4, 0);
  EXPECT_NEAR(guess.of(moments(0, 1)), 4, 0.01);
  guess.forget();
  EXPECT_EQ(guess.of(moments(0, 1)), kNone);
}

TEST(ThresholdGuess, SaysNothingOfLowThresholds) {
  ThresholdGuess guess;
  teach(guess, 0.5, 0.01);
  EXPECT_EQ(guess.of(moments(0, 1)), kNone);
  ThresholdGuess wide;
  teach(wide, 2.5, 1);
  EXPECT_EQ(wide.of(moments(0, 1)), kNone);
}

// Rows whose thresholds differ in deviations above the mean, and are alike above a high score.
TEST(ThresholdGuess, FollowsHighScores) {
  ThresholdGuess guess;
  const auto of_row = [](int row) { return ScoreMoments{0, 1, 2 + 0.1F * static_cast<float>(row)}; };
  for (int row = 0; row < 48; ++row) guess.add(of_row(row), of_row(row).high + 0.5F);
  guess.learn();
  for (const int row : {0, 20, 47}) EXPECT_NEAR(guess.of(of_row(row)), of_row(row).high + 0.5, 1e-4);
}

TEST(ThresholdGuess, LearnsNothingFromEqualScores) {
  ThresholdGuess guess;
  for (int row = 0; row < 48; ++row) guess.add(moments(1, 0), 1);
  guess.learn();
  EXPECT_EQ(guess.of(moments(0, 1)), kNone);
  teach(guess, 2.5, 0);
  EXPECT_EQ(guess.of(moments(1, 0)), kNone);
}

// ---- the search: what guesses spare, and what they must not hide ----

constexpr int64_t kWidth = 32;

// Queries and keys of a search, all normal.
struct SearchCase {
  int64_t num_keys;
  Aligned<float> rows = aligned<float>(num_keys * kWidth), mean = aligned<float>(kWidth);
  std::vector<KeyBlock> blocks;
  Aligned<uint32_t> words;
  PackedKeys packed;
  Rng rng{9};

  explicit SearchCase(int64_t keys) : num_keys(keys), blocks(static_cast<size_t>((keys + 511) / 512)) {
    for (int64_t i = 0; i < num_keys * kWidth; ++i) rows[static_cast<size_t>(i)] = static_cast<float>(rng.normal());
    std::copy_n(rows.get(), kWidth, mean.get());
    packed.num_keys = num_keys, packed.width = kWidth;
    packed.format = fastest_screen_format({kWidth, num_keys, 16});
    packed.steps = screen_steps(packed.format, kWidth);
    packed.rows = rows.get(), packed.mean = mean.get(), packed.blocks = blocks.data();
    words = aligned<uint32_t>((num_keys / kTileKeys + 1) * tile_words(packed.format, packed.steps));
    packed.words = words.get();
    screen_ops().pack_keys(packed);
  }
  // Lists for new queries: along `axis` alone, or in any direction.
  void run(CandidateSearch& search, const ScreenSelection& selection, int64_t axis) {
    for (int64_t i = 0; i < kBlockQueries; ++i) {
      search.row(i).keys.compete = {{0, num_keys}};
      for (int64_t d = 0; d < kWidth; ++d) {
        search.query(i)[d] = axis < 0 ? static_cast<float>(rng.normal()) : d == axis ? 1.0F + 0.01F * i : 0.0F;
      }
    }
    search.run(selection, packed, 1, kBlockQueries);
  }
  // Selected keys that a list lacks, of all rows.
  int64_t missing(CandidateSearch& search, int64_t k) const {
    int64_t lacking = 0;
    for (int64_t i = 0; i < kBlockQueries; ++i) {
      std::vector<std::pair<double, int32_t>> scores;
      for (int64_t key = 0; key < num_keys; ++key) {
        double score = 0;
        for (int64_t d = 0; d < kWidth; ++d) {
          score += double{search.query(i)[d]} * rows[static_cast<size_t>(key * kWidth + d)];
        }
        scores.emplace_back(-score, static_cast<int32_t>(key));
      }
      std::sort(scores.begin(), scores.end());
      const RowList& list = search.row(i).list;
      for (int64_t n = 0; n < k; ++n) {
        const int32_t key = scores[static_cast<size_t>(n)].second;
        lacking += std::find(list.keys, list.keys + list.count, key) == list.keys + list.count ? 1 : 0;
      }
    }
    return lacking;
  }
};

class Searches : public LevelTest {};

TEST_P(Searches, GuessFromEarlierRows) {
  const ScreenSelection selection = selection_of(parse_attention("topk(16)"), nullptr);
  SearchCase data(3000);
  CandidateSearch search(data.num_keys, kWidth);
  data.run(search, selection, -1);
  for (int64_t i = 0; i < kBlockQueries; ++i) EXPECT_EQ(search.row(i).guess, kNone);
  EXPECT_EQ(data.missing(search, 16), 0);
  data.run(search, selection, -1);
  int64_t guessed = 0;
  for (int64_t i = 0; i < kBlockQueries; ++i) {
    const ScreenedQuery& row = search.row(i);
    EXPECT_FALSE(row.missed());
    guessed += row.guess > kNone ? 1 : 0;
    EXPECT_LT(row.threshold - row.guess, row.guess > kNone ? 2 * row.first_whole.deviation : INFINITY);
  }
  EXPECT_GT(guessed, kBlockQueries * 9 / 10);
  EXPECT_EQ(data.missing(search, 16), 0);
  search.forget();
  data.run(search, selection, -1);
  for (int64_t i = 0; i < kBlockQueries; ++i) EXPECT_EQ(search.row(i).guess, kNone);
}

// Keys that by the product and its bound may reach their row's threshold, and that its list lacks; of all rows.
int64_t unproved(const SearchCase& data, CandidateSearch& search) {
  const PackedKeys& keys = data.packed;
  const ScreenOps& ops = screen_ops();
  auto words = aligned<uint32_t>(kBlockQueries * keys.steps), scores = aligned<uint32_t>(kBlockQueries * kScoreStride);
  auto hits = aligned<uint16_t>(kBlockQueries * kBlockKeys / kGroupKeys);
  uint32_t start[kBlockQueries], thresholds[kBlockQueries] = {};
  for (int64_t i = 0; i < kBlockQueries; ++i) {
    start[i] = ops.pack_query(keys, search.query(i), 1, words.get() + i * keys.steps).start;
  }
  int64_t lacking = 0;
  for (int64_t first = 0; first < keys.num_keys; first += kBlockKeys) {
    const int64_t count = std::min<int64_t>(kBlockKeys, keys.num_keys - first);
    screen_product(keys.format)({words.get(), start, thresholds,
                                 keys.words + first / kTileKeys * tile_words(keys.format, keys.steps), scores.get(),
                                 hits.get(), keys.steps, kBlockQueries, (count + kTileKeys - 1) / kTileKeys});
    const KeyBlock& block = keys.blocks[first / kBlockKeys];
    for (int64_t i = 0; i < kBlockQueries; ++i) {
      const ScreenedQuery& row = search.row(i);
      if (row.direct) continue;
      const std::set<int32_t> listed(row.list.keys, row.list.keys + row.list.count);
      const double step = double{block.step} * row.packed.step;
      for (int64_t j = 0; j < count; ++j) {
        const double unit = is_integer(keys.format) ? step : 1;
        const double score = screened_score(keys.format, scores.get() + i * kScoreStride, j) * unit;
        // The search compares floats: a rounding less.
        const double reach = score + row.packed.bound(block) * (1 - 1e-6);
        if (reach >= row.threshold && !listed.contains(static_cast<int32_t>(first + j))) ++lacking;
      }
    }
  }
  return lacking;
}

// Selected keys are mostly far above what the bound allows; this sees a bound or a threshold that is a little off, too.
TEST_P(Searches, ListAllThatTheBoundAllows) {
  for (const char* spec : {"topk(4)", "topk(16)", "topk(200)", "sparsemax", "entmax(1.5)"}) {
    const ScreenSelection selection = selection_of(parse_attention(spec), nullptr);
    SearchCase data(3000);
    CandidateSearch search(data.num_keys, kWidth);
    search.leave_candidates();
    for (const int64_t axis : {-1, -1, 2, 2}) {
      data.run(search, selection, axis);
      EXPECT_EQ(unproved(data, search), 0) << spec << " axis " << axis;
    }
  }
}

// The keys whose exact scores are the greatest, in order; rounding alone lies between their threshold and the row's.
TEST_P(Searches, SelectExactly) {
  const ScreenOps& ops = screen_ops();
  for (const int64_t k : {4, 16, 200}) {
    const ScreenSelection selection = selection_of(parse_attention(cat("topk(", k, ")")), nullptr);
    SearchCase data(3000);
    CandidateSearch search(data.num_keys, kWidth);
    std::vector<int32_t> keys(static_cast<size_t>(data.num_keys));
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<float> scores(keys.size() + 16);
    for (const int64_t axis : {-1, -1, 2, 2}) {
      data.run(search, selection, axis);
      for (int64_t i = 0; i < kBlockQueries; ++i) {
        const ScreenedQuery& row = search.row(i);
        const float* q = search.query(i);
        ops.dots({data.rows.get(), kWidth, keys.data(), data.num_keys}, q, 1, scores.data());
        std::vector<float> sorted(scores.begin(), scores.begin() + data.num_keys);
        std::nth_element(sorted.begin(), sorted.begin() + k - 1, sorted.end(), std::greater<>());
        const float threshold = sorted[static_cast<size_t>(k - 1)];
        ASSERT_EQ(row.list.threshold.value_or(kNone), threshold) << "k " << k << ", axis " << axis << ", row " << i;
        std::vector<int32_t> selected;
        std::copy_if(keys.begin(), keys.end(), std::back_inserter(selected),
                     [&](int32_t key) { return scores[static_cast<size_t>(key)] >= threshold; });
        EXPECT_EQ(std::vector<int32_t>(row.list.keys, row.list.keys + row.list.count), selected);
        double of_mean = 0;
        for (int64_t d = 0; d < kWidth; ++d) of_mean += double{q[d]} * data.mean[static_cast<size_t>(d)];
        const double exact = (double{threshold} - of_mean) / row.packed.factor;
        EXPECT_LE(row.threshold, exact);
        EXPECT_GT(row.threshold, exact - 0x1p-16 * (std::abs(exact) + row.packed.norm * data.packed.plain));
      }
    }
  }
}

// If a guess was too high, the row is screened again without one, and teaches the guess where it ended.
TEST_P(Searches, ScreenAgainWhatTheyMissed) {
  const ScreenSelection selection = selection_of(parse_attention("topk(16)"), nullptr);
  for (const int64_t keys : {700, 2000}) {
    SearchCase data(keys);
    // Along axis 1, keys behind the first block stand far out; along axis 2, all lie within a bound.
    for (int64_t key = 0; key < keys; ++key) {
      float* row = data.rows.get() + key * kWidth;
      row[1] = key >= kBlockKeys && key % 5 == 3 ? 40.0F + row[1] : row[1];
      const float place = static_cast<float>(key * 977 % keys) / static_cast<float>(keys);
      row[2] = 40 * place * place * place;
    }
    screen_ops().pack_keys(data.packed);
    CandidateSearch search(keys, kWidth);
    data.run(search, selection, 1);
    data.run(search, selection, 2);
    int64_t again = 0;
    for (int64_t i = 0; i < kBlockQueries; ++i) again += search.row(i).guess == kNone ? 1 : 0;
    EXPECT_EQ(again, kBlockQueries);
    EXPECT_EQ(data.missing(search, 16), 0);
    for (int round = 0; round < 40; ++round) data.run(search, selection, 2);
    again = 0;
    for (int64_t i = 0; i < kBlockQueries; ++i) again += search.row(i).guess == kNone ? 1 : 0;
    EXPECT_LT(again, kBlockQueries / 4) << keys;
    EXPECT_EQ(data.missing(search, 16), 0);
  }
}

// A product that overflows before it is scaled has no score that a guess could be proved by.
TEST_P(Searches, ListAllWhereProductsOverflow) {
  const ScreenSelection selection = selection_of(parse_attention("topk(16)"), nullptr);
  for (const float size : {0x1p50F, 0x1p63F}) {
    SearchCase data(1000);
    for (int64_t i = 0; i < data.num_keys * kWidth; ++i) data.rows[static_cast<size_t>(i)] *= size;
    screen_ops().pack_keys(data.packed);
    CandidateSearch search(data.num_keys, kWidth);
    for (int64_t i = 0; i < kBlockQueries; ++i) {
      search.row(i).keys.compete = {{0, data.num_keys}};
      for (int64_t d = 0; d < kWidth; ++d) search.query(i)[d] = size * static_cast<float>(data.rng.normal());
    }
    search.run(selection, data.packed, 0x1p-60F, kBlockQueries);
    for (int64_t i = 0; i < kBlockQueries; ++i) EXPECT_EQ(search.row(i).direct, size > 0x1p60F);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Searches, testing::ValuesIn(runnable_isas()), level_title);

// ---- guesses that are wrong: the selection must not show it ----

// Along axis 1 few keys stand far out; along axis 2 none does; along axis 3 only keys behind the first block do.
enum Axis : int64_t { kFarOut = 1, kEven = 2, kLate = 3 };

struct Wrong {
  const char* name;
  Axis before, after;  // of the queries that are taken first, and of the rest
};

constexpr int64_t kQueries = 300, kKeys = 2100, kDim = 17;

Inputs inputs_of(const Wrong& wrong) {
  Inputs in;
  Rng rng(5);
  for (Array* a : {&in.q, &in.grad_out}) *a = Array(DType::kFloat32, Layout::kPacked, kQueries, 1, kDim);
  for (Array* a : {&in.k, &in.v}) *a = Array(DType::kFloat32, Layout::kPacked, kKeys, 1, kDim);
  for (int64_t t = 0; t < kQueries; ++t) {
    // The last queries are taken first.
    const Axis axis = t >= kQueries / 2 ? wrong.before : wrong.after;
    for (int64_t i = 0; i < kDim; ++i) {
      in.q.set(t, 0, i, i == axis ? 1 + 0.01 * static_cast<double>(t) : 0);
      in.grad_out.set(t, 0, i, rng.normal());
    }
  }
  for (int64_t t = 0; t < kKeys; ++t) {
    const double small = rng.normal(), place = static_cast<double>(t * 977 % 2101) / 2101;
    for (int64_t i = 0; i < kDim; ++i) {
      in.v.set(t, 0, i, rng.normal());
      in.k.set(t, 0, i,
               i == kFarOut ? (t % 50 == 7 ? 20 + small : small)
               : i == kEven ? 4 * place
               : i == kLate ? (t > 1500 && t % 20 == 3 ? 30 + small : small)
                            : 0);
    }
  }
  in.alpha = {1.5F};
  return in;
}

double greatest_difference(const Array& got, const std::vector<double>& right) {
  double most = 0;
  for (int64_t t = 0; t < got.tokens(); ++t) {
    for (int64_t i = 0; i < kDim; ++i) {
      const double difference = std::abs(got.get(t, 0, i) - right[static_cast<size_t>(t * kDim + i)]);
      if (!(difference <= most)) most = difference;
    }
  }
  return most;
}

class Guesses : public LevelTest {};

TEST_P(Guesses, AreProved) {
  SerialExecutor serial;
  for (const Wrong& wrong : {Wrong{"too high", kFarOut, kEven}, Wrong{"too low", kEven, kFarOut},
                             Wrong{"missing what comes late", kFarOut, kLate}, Wrong{"right", kFarOut, kFarOut}}) {
    for (const char* spec : {"topk(8)", "topk(20,keep=window(6))+sparsemax", "topk(40)", "sparsemax", "entmax(1.5)"}) {
      AttentionProblem problem;
      problem.spec = parse_attention(spec);
      problem.kind = AttentionKind::kCross;
      problem.head_dim = kDim;
      problem.needs_backward = true;
      problem.sequences = {{0, kQueries, 0, kKeys}};
      if (problem.spec.keep) problem.kind = AttentionKind::kSelf;
      const Inputs in = inputs_of(wrong);
      const Results got = testing_suite::run_kernel(problem.spec.selects() ? kTopkKernel : kEntmaxKernel, problem, in,
                                                    Layout::kPacked, serial);
      const OracleInput one = testing_suite::one_head(problem, in, 0, 0);
      const OracleOutput right = oracle_forward(one);
      const OracleGradients grads = oracle_backward(one, right, testing_suite::cotangents_of(problem, in, 0, 0).out);
      const std::string what = cat(wrong.name, ", ", spec, ", ", name(GetParam()));
      // Scores of up to 128 are off by some 128 2^-24, and a weight by as much; a wrong selection by a whole weight.
      constexpr double kTolerance = 128 * 0x1p-24 * 16;
      EXPECT_LT(greatest_difference(got.out, right.out), kTolerance) << what;
      EXPECT_LT(greatest_difference(got.grad_q, grads.q), 40 * kTolerance) << what;  // times keys of up to 34
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Guesses, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::screen_guess_test
