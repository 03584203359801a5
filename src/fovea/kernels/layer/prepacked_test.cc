#include "fovea/kernels/layer/prepacked.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "fovea/kernels/layer/levels_test.h"
#include "fovea/kernels/layer/product.h"

namespace fovea::kernels::packed_test {
namespace {

using testing::at_every_level;
using testing::normals;
using testing::Values;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

struct Size {
  int64_t rows, depth, columns;
};

template <class T>
class PrepackedLayerTest : public ::testing::Test {};
using Elements = ::testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(PrepackedLayerTest, Elements);

// product.h is held to double by its own test.
TYPED_TEST(PrepackedLayerTest, HasTheBitsOfTheProduct) {
  using T = TypeParam;
  SerialExecutor one;
  ThreadExecutor three(3);
  for (const auto& [rows, depth, columns] : {Size{1, 1, 1}, {3, 2, 5}, {65, 33, 31}, {130, 64, 65}, {7, 129, 300}}) {
    for (const bool relu : {false, true}) {
      const Values<T> a = normals<T>(rows * depth, 1), weight = normals<T>(columns * depth, 2);
      const Values<T> bias = normals<T>(columns, 3);
      at_every_level([&, rows = rows, depth = depth, columns = columns] {
        std::vector<T> want(rows * columns), got(rows * columns), alone(columns);
        RowProduct<T> product{
            .a = a.kept.data(), .b = weight.kept.data(), .bias = bias.kept.data(), .out = want.data()};
        product.rows = rows, product.depth = depth, product.columns = columns;
        product.a_stride = product.b_column_stride = depth, product.out_stride = columns;
        product.b_depth_stride = 1, product.relu = relu;
        multiply(product, one);
        const PrepackedLayer layer(LayerWeights<T>{weight.kept.data(), bias.kept.data(), columns, depth},
                                   LayerFormat::kExact, three);
        LayerRows<T> job{.a = a.kept.data(), .layer = &layer, .out = got.data()};
        job.rows = rows, job.a_stride = depth, job.out_stride = columns, job.relu = relu;
        multiply(job, three);
        EXPECT_EQ(got, want);
        job.a += (rows - 1) * depth, job.out = alone.data(), job.rows = 1;
        multiply(job, one);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), want.end() - columns));
      });
    }
  }
}

// Rows and columns keep 127 steps of their greatest number, so that a number is off by half a step at most.
template <class T>
double half_step(const Values<T>& from, int64_t begin, int64_t depth) {
  double top = 0;
  for (int64_t k = begin; k < begin + depth; ++k) top = std::max(top, std::abs(from.exact[k]));
  return top / 127 / 2 * (1 + 1e-6);
}

TYPED_TEST(PrepackedLayerTest, In8BitsIsOffByHalfAStepANumber) {
  using T = TypeParam;
  SerialExecutor one;
  ThreadExecutor three(3);
  for (const auto& [rows, depth, columns] : {Size{1, 1, 1}, {3, 2, 5}, {65, 33, 31}, {130, 64, 65}, {7, 1029, 300}}) {
    const Values<T> a = normals<T>(rows * depth, 1), weight = normals<T>(columns * depth, 2);
    const Values<T> bias = normals<T>(columns, 3);
    std::vector<std::vector<T>> of_levels;
    at_every_level([&, rows = rows, depth = depth, columns = columns] {
      const LayerWeights<T> weights{weight.kept.data(), bias.kept.data(), columns, depth};
      const PrepackedLayer layer(weights, LayerFormat::kInt8, three);
      std::vector<T> got(rows * columns), alone(columns);
      LayerRows<T> job{.a = a.kept.data(), .layer = &layer, .out = got.data()};
      job.rows = rows, job.a_stride = depth, job.out_stride = columns;
      multiply(job, three);
      for (int64_t r = 0; r < rows; ++r) {
        const double of_row = half_step(a, r * depth, depth);
        for (int64_t c = 0; c < columns; ++c) {
          const double of_column = half_step(weight, c * depth, depth);
          double want = bias.exact[c], bound = 1e-6 * std::abs(want);
          for (int64_t k = 0; k < depth; ++k) {
            const double x = a.exact[r * depth + k], y = weight.exact[c * depth + k];
            want += x * y;
            bound += std::abs(x) * of_column + std::abs(y) * of_row + of_row * of_column;
          }
          if (sizeof(T) == 2) bound += std::abs(want) * 0x1p-7;
          ASSERT_NEAR(testing::widened(got[r * columns + c]), want, bound) << r << " " << c;
        }
      }
      of_levels.push_back(got);
      job.a += (rows - 1) * depth, job.out = alone.data(), job.rows = 1;
      multiply(job, one);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), got.end() - columns));
    });
    // Sums are whole numbers; what remains is the rounding of three products and a sum.
    for (const std::vector<T>& got : of_levels) {
      for (size_t i = 0; i < got.size(); ++i) {
        const double x = testing::widened(got[i]), y = testing::widened(of_levels[0][i]);
        ASSERT_NEAR(x, y, (sizeof(T) == 4 ? 1e-6 : 0x1p-7) * (1 + std::abs(y)));
      }
    }
  }
}

TEST(PrepackedLayerIn8Bits, ShowsWhatIsNotFiniteWhereItWas) {
  at_every_level([] {
    SerialExecutor one;
    constexpr int64_t kRows = 9, kDepth = 37, kColumns = 41;
    for (const float wrong : {kNaN, kInfinity, -kInfinity}) {
      Values<float> a = normals<float>(kRows * kDepth, 1), weight = normals<float>(kColumns * kDepth, 2);
      a.kept[4 * kDepth + 36] = wrong;
      weight.kept[40 * kDepth + 3] = wrong;
      std::fill_n(a.kept.begin(), kDepth, 0.0F);
      std::fill_n(a.kept.begin() + kDepth, kDepth, 1e-42F);
      const std::vector<float> bias(kColumns, 0.5F);
      const PrepackedLayer layer(LayerWeights<float>{weight.kept.data(), bias.data(), kColumns, kDepth},
                                 LayerFormat::kInt8, one);
      std::vector<float> got(kRows * kColumns);
      LayerRows<float> job{.a = a.kept.data(), .layer = &layer, .out = got.data()};
      job.rows = kRows, job.a_stride = kDepth, job.out_stride = kColumns;
      multiply(job, one);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < kColumns; ++c) {
          const float x = got[r * kColumns + c];
          EXPECT_EQ(std::isnan(x), r == 4 || c == 40) << r << " " << c;
          if (r < 2 && c < 40) {
            EXPECT_EQ(x, 0.5F);
          }
        }
      }
    }
  });
}

TEST(PrepackedLayerIn8Bits, KeepsLayersTooDeepForItsSumsAsTheyAre) {
  SerialExecutor one;
  const std::vector<float> weight(2 * kMostInt8Depth + 2, 1.0F);
  const auto format_of = [&](int64_t depth) {
    return PrepackedLayer(LayerWeights<float>{weight.data(), nullptr, 2, depth}, LayerFormat::kInt8, one).format();
  };
  EXPECT_EQ(format_of(kMostInt8Depth), LayerFormat::kInt8);
  EXPECT_EQ(format_of(kMostInt8Depth + 1), LayerFormat::kExact);
}

TEST(PrepackedLayerIn8Bits, SumsOfGreatestNumbersFit) {
  at_every_level([] {
    SerialExecutor one;
    const std::vector<float> weight(kMostInt8Depth, 1.0F), a(kMostInt8Depth, -1.0F);
    const PrepackedLayer layer(LayerWeights<float>{weight.data(), nullptr, 1, kMostInt8Depth}, LayerFormat::kInt8, one);
    float got = 0;
    LayerRows<float> job{.a = a.data(), .layer = &layer, .out = &got};
    job.rows = 1, job.a_stride = kMostInt8Depth, job.out_stride = 1;
    multiply(job, one);
    EXPECT_NEAR(got, -65536.0, 0.05);  // some roundings of 2^-24
  });
}

struct Words {
  std::vector<int32_t> words;
  std::vector<float> log_probs, eos;
  int64_t bad = 0;
  bool operator==(const Words&) const = default;
};

struct Output {
  std::vector<float> hidden, weight, bias;
  int64_t rows, depth, columns;
};

Words next(const Output& output, int64_t n, int64_t eos, Executor& executor, LayerFormat format = LayerFormat::kExact) {
  const PrepackedLayer layer(
      LayerWeights<float>{output.weight.data(), output.bias.data(), output.columns, output.depth}, format, executor);
  Words result{std::vector<int32_t>(output.rows * n), std::vector<float>(output.rows * n),
               std::vector<float>(output.rows)};
  NextWords job{.hidden = output.hidden.data(), .output = &layer, .rows = output.rows};
  job.hidden_stride = output.depth, job.n = n, job.eos = eos;
  job.words = result.words.data(), job.log_probs = result.log_probs.data(), job.eos_log_prob = result.eos.data();
  result.bad = next_words(job, executor);
  return result;
}

// Logits as they are: one row, no hidden state but a bias.
Output logits_alone(const std::vector<float>& logits) {
  const auto columns = static_cast<int64_t>(logits.size());
  return {{0.0F}, std::vector<float>(logits.size(), 1.0F), logits, 1, 1, columns};
}

std::vector<double> log_softmax(const Output& output, int64_t row) {
  std::vector<double> logits(output.bias.begin(), output.bias.end());
  for (int64_t v = 0; v < output.columns; ++v) {
    for (int64_t k = 0; k < output.depth; ++k) {
      logits[v] += double{output.hidden[row * output.depth + k]} * output.weight[v * output.depth + k];
    }
  }
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double logit : logits) total += std::exp(logit - greatest);
  for (double& logit : logits) logit -= greatest + std::log(total);
  return logits;
}

TEST(NextWords, AreTheSortedLogSoftmax) {
  // Edges of tiles and blocks of rows, of panels of columns; n up to the vocabulary; logits far apart and near.
  struct Case {
    Size size;
    int64_t n, eos;
    float scale;
  };
  SerialExecutor one;
  ThreadExecutor three(3);
  for (const auto& [size, n, eos, scale] : {Case{{1, 1, 1}, 1, 0, 1},
                                            {{3, 5, 2}, 2, 1, 1},
                                            {{2, 3, 17}, 17, 16, 1},
                                            {{71, 12, 1003}, 6, 0, 1},
                                            {{5, 40, 333}, 33, 332, 8},
                                            {{9, 16, 64}, 64, 33, 0.01F}}) {
    Output output{normals<float>(size.rows * size.depth, 1).kept,
                  normals<float>(size.columns * size.depth, 2).kept,
                  normals<float>(size.columns, 3).kept,
                  size.rows,
                  size.depth,
                  size.columns};
    for (float& x : output.hidden) x *= scale;
    at_every_level([&, size = size, n = n, eos = eos, scale = scale] {
      const Words got = next(output, n, eos, one);
      EXPECT_EQ(got.bad, 0);
      for (int64_t r = 0; r < size.rows; ++r) {
        const std::vector<double> want = log_softmax(output, r);
        const double bound = 4e-6 * (1 + scale * std::sqrt(static_cast<double>(size.depth)));
        std::vector<double> sorted = want;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        for (int64_t i = 0; i < n; ++i) {
          EXPECT_NEAR(got.log_probs[r * n + i], sorted[i], bound);
          EXPECT_NEAR(got.log_probs[r * n + i], want[got.words[r * n + i]], bound);
        }
        std::vector<int32_t> words(got.words.begin() + r * n, got.words.begin() + (r + 1) * n);
        std::sort(words.begin(), words.end());
        EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
        EXPECT_NEAR(got.eos[r], want[eos], bound);
      }
      EXPECT_EQ(next(output, n, eos, three), got);
      Output last = output;
      last.rows = 1;
      last.hidden.erase(last.hidden.begin(), last.hidden.end() - size.depth);
      const Words alone = next(last, n, eos, one);
      EXPECT_TRUE(std::equal(alone.words.begin(), alone.words.end(), got.words.end() - n));
      EXPECT_TRUE(std::equal(alone.log_probs.begin(), alone.log_probs.end(), got.log_probs.end() - n));
      EXPECT_EQ(alone.eos[0], got.eos.back());
    });
  }
}

// Compares with the logits of the same layer; the tests above measure the error of these.
TEST(NextWords, In8BitsAreTheLogSoftmaxOfThoseLogits) {
  const Output output{
      normals<float>(71 * 45, 1).kept, normals<float>(1003 * 45, 2).kept, normals<float>(1003, 3).kept, 71, 45, 1003};
  at_every_level([&] {
    ThreadExecutor three(3);
    const PrepackedLayer layer(
        LayerWeights<float>{output.weight.data(), output.bias.data(), output.columns, output.depth}, LayerFormat::kInt8,
        three);
    std::vector<float> logits(output.rows * output.columns);
    LayerRows<float> job{.a = output.hidden.data(), .layer = &layer, .out = logits.data()};
    job.rows = output.rows, job.a_stride = output.depth, job.out_stride = output.columns;
    multiply(job, three);
    const Words got = next(output, 6, 7, three, LayerFormat::kInt8);
    EXPECT_EQ(got.bad, 0);
    for (int64_t r = 0; r < output.rows; ++r) {
      const std::vector<float> of_row(logits.begin() + r * output.columns, logits.begin() + (r + 1) * output.columns);
      const std::vector<double> want = log_softmax(logits_alone(of_row), 0);
      std::vector<double> sorted = want;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (int64_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(got.log_probs[r * 6 + i], sorted[i], 4e-5);  // logits of some tens, in floats
        EXPECT_NEAR(got.log_probs[r * 6 + i], want[got.words[r * 6 + i]], 4e-5);
      }
      EXPECT_NEAR(got.eos[r], want[7], 4e-5);
    }
  });
}

TEST(NextWords, TiesTakeTheLowerWord) {
  at_every_level([] {
    SerialExecutor one;
    std::vector<float> logits(100, 1.0F);
    EXPECT_EQ(next(logits_alone(logits), 4, 0, one).words, (std::vector<int32_t>{0, 1, 2, 3}));
    logits[3] = logits[40] = logits[99] = 2.0F;
    EXPECT_EQ(next(logits_alone(logits), 5, 0, one).words, (std::vector<int32_t>{3, 40, 99, 0, 1}));
  });
}

TEST(NextWords, LogitsOfAnySizeAreSummedExactly) {
  at_every_level([] {
    SerialExecutor one;
    // Rising by more than the sum's range, from very low ones; and two great ones that share the probability.
    std::vector<float> logits(200);
    std::iota(logits.begin(), logits.end(), -2000.0F);
    for (float& logit : logits) logit *= 10;
    logits[7] = logits[150] = 3000.0F;
    const Words got = next(logits_alone(logits), 2, 150, one);
    EXPECT_EQ(got.words, (std::vector<int32_t>{7, 150}));
    EXPECT_NEAR(got.log_probs[0], -std::log(2.0), 1e-6);
    EXPECT_NEAR(got.eos[0], -std::log(2.0), 1e-6);
  });
}

TEST(NextWords, InfinitelyUnlikelyWordsComeLast) {
  at_every_level([] {
    SerialExecutor one;
    std::vector<float> logits(50, -kInfinity);
    logits[20] = logits[2] = 1.5F;
    const Words got = next(logits_alone(logits), 4, 0, one);
    EXPECT_EQ(got.bad, 0);
    EXPECT_EQ(got.words, (std::vector<int32_t>{2, 20, 0, 1}));
    EXPECT_NEAR(got.log_probs[0], -std::log(2.0), 1e-6);
    EXPECT_EQ(got.log_probs[2], -kInfinity);
    EXPECT_EQ(got.eos[0], -kInfinity);
  });
}

TEST(NextWords, RowsWithoutALogSoftmaxAreCounted) {
  at_every_level([] {
    SerialExecutor one;
    for (const float wrong : {kNaN, kInfinity}) {
      for (const int64_t place : {0, 5, 31, 64, 99}) {
        std::vector<float> logits(100, 0.25F);
        logits[place] = wrong;
        const Words got = next(logits_alone(logits), 3, 0, one);
        EXPECT_EQ(got.bad, 1) << wrong << " at " << place;
        EXPECT_EQ(got.words, (std::vector<int32_t>{0, 1, 2}));
        EXPECT_EQ(got.log_probs, std::vector<float>(3, -kInfinity));
        EXPECT_EQ(got.eos[0], -kInfinity);
      }
    }
    EXPECT_EQ(next(logits_alone(std::vector<float>(40, -kInfinity)), 3, 0, one).bad, 1);
    EXPECT_EQ(next(logits_alone(std::vector<float>(40, kNaN)), 3, 0, one).bad, 1);
  });
}

}  // namespace
}  // namespace fovea::kernels::packed_test
