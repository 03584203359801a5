#include <cmath>
#include <numeric>

#include "fovea/kernels/layer/dropout.h"
#include "fovea/kernels/layer/levels_test.h"
#include "fovea/kernels/layer/norm.h"
#include "fovea/kernels/layer/reduce.h"
#include "fovea/kernels/layer/update.h"

namespace fovea::kernels::elementwise_test {
namespace {

using testing::at_every_level;
using testing::normals;
using testing::Values;
using testing::widened;

// norm_test.cc tests counters that pass 2^32.
TEST(DropKernel, DrawsWhatTheDefinitionDraws) {
  const std::vector<float> ones(1000, 1.0F);
  at_every_level([&] {
    std::vector<float> out(ones.size());
    SerialExecutor executor;
    drop({.x = ones.data(), .out = out.data(), .count = 1000, .dropout = {.rate = 0.4F, .seed = 9}}, executor);
    for (int64_t i = 0; i < 1000; ++i) {
      EXPECT_EQ(out[i] != 0, element_survives(9, i, dropout_threshold(0.4F))) << i;
      if (out[i] != 0) {
        EXPECT_FLOAT_EQ(out[i], 1 / 0.6F);
      }
    }
  });
}

// Rows of a layer norm and the gradients of its outputs, with the definition in double.
struct NormProblem {
  static constexpr int64_t kRows = 70, kWidth = 37;
  Values<float> x = normals<float>(kRows * kWidth, 1), gain = normals<float>(kWidth, 2),
                bias = normals<float>(kWidth, 3);
  Values<float> grad = normals<float>(kRows * kWidth, 4);

  // Row r with element `nudged` greater by `by`.
  std::vector<double> row(int64_t r, int64_t nudged = 0, double by = 0) const {
    std::vector<double> y(x.exact.begin() + r * kWidth, x.exact.begin() + (r + 1) * kWidth);
    y[nudged] += by;
    double average = 0, variance = 0;
    for (const double value : y) average += value / kWidth;
    for (const double value : y) variance += (value - average) * (value - average) / kWidth;
    for (int64_t i = 0; i < kWidth; ++i) {
      y[i] = (y[i] - average) / std::sqrt(variance + 1e-5) * gain.exact[i] + bias.exact[i];
    }
    return y;
  }
  double loss(int64_t r, int64_t nudged, double by) const {
    const std::vector<double> y = row(r, nudged, by);
    return std::inner_product(y.begin(), y.end(), grad.exact.begin() + r * kWidth, 0.0);
  }
};

struct NormResults {
  std::vector<float> out, grad_x;
};

NormResults compute(const NormProblem& problem) {
  constexpr int64_t kRows = NormProblem::kRows, kWidth = NormProblem::kWidth;
  NormResults results{std::vector<float>(kRows * kWidth), std::vector<float>(kRows * kWidth)};
  std::vector<float> mean(kRows), rstd(kRows), grad_gain(kWidth), grad_bias(kWidth);
  SerialExecutor executor;
  NormForward<float> forward{.x = problem.x.kept.data(),
                             .gain = problem.gain.kept.data(),
                             .bias = problem.bias.kept.data(),
                             .out = results.out.data(),
                             .mean = mean.data(),
                             .rstd = rstd.data(),
                             .rows = kRows,
                             .width = kWidth,
                             .eps = 1e-5F};
  norm_forward(forward, executor);
  NormBackward<float> backward{.sum = problem.x.kept.data(),
                               .gain = problem.gain.kept.data(),
                               .mean = mean.data(),
                               .rstd = rstd.data(),
                               .grad_out = problem.grad.kept.data(),
                               .grad_residual = results.grad_x.data(),
                               .grad_gain = grad_gain.data(),
                               .grad_bias = grad_bias.data(),
                               .rows = kRows,
                               .width = kWidth};
  norm_backward(backward, executor);
  return results;
}

TEST(NormKernel, AgreesWithDoubleAtEveryLevel) {
  const NormProblem problem;
  at_every_level([&] {
    const NormResults found = compute(problem);
    for (const int64_t r : {0, 63, 69}) {
      const std::vector<double> want = problem.row(r);
      for (int64_t i = 0; i < NormProblem::kWidth; ++i) {
        // Some dozen roundings of numbers below ten.
        EXPECT_NEAR(found.out[r * NormProblem::kWidth + i], want[i], 1e-5);
      }
      for (const int64_t i : {0, 15, 36}) {
        // Central differences in double: their own error is the third derivative times 1e-8.
        const double slope = (problem.loss(r, i, 1e-4) - problem.loss(r, i, -1e-4)) / 2e-4;
        EXPECT_NEAR(found.grad_x[r * NormProblem::kWidth + i], slope, 2e-5) << r << " " << i;
      }
    }
  });
}

TEST(EmbedKernel, SumsEveryWordsTokensAtEveryLevel) {
  constexpr int64_t kTokens = 40, kWords = 7, kWidth = 19;
  const auto grad = normals<float>(kTokens * kWidth, 1);
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < kTokens; ++t) ids.push_back(t * t % kWords);
  at_every_level([&] {
    std::vector<float> sums(kWords * kWidth, -1);
    SerialExecutor executor;
    embed(EmbedBackward<float>{.ids = ids.data(),
                               .grad = grad.kept.data(),
                               .grad_weight = sums.data(),
                               .tokens = kTokens,
                               .vocabulary = kWords,
                               .width = kWidth,
                               .scale = 2},
          executor);
    for (int64_t v = 0; v < kWords; ++v) {
      for (int64_t i = 0; i < kWidth; ++i) {
        double want = 0;
        for (int64_t t = 0; t < kTokens; ++t) want += ids[t] == v ? 2 * grad.exact[t * kWidth + i] : 0;
        EXPECT_NEAR(sums[v * kWidth + i], want, 1e-5) << v;  // at most some dozen addends below four
      }
    }
  });
}

// The words fill more than one piece of the table, and most have two tokens that lie far apart.
TEST(EmbedKernel, SumsTheTokensOfManyWords) {
  constexpr int64_t kWords = 1100, kWidth = 3, kTokens = 2 * kWords;
  std::vector<int64_t> ids;
  std::vector<float> grad, want(kWords * kWidth);
  for (int64_t t = 0; t < kTokens; ++t) {
    ids.push_back(t * 7 % kWords);
    for (int64_t i = 0; i < kWidth; ++i) {
      grad.push_back(static_cast<float>((t * kWidth + i) % 5));
      want[ids.back() * kWidth + i] += grad.back();  // small whole numbers: exact in any order
    }
  }
  at_every_level([&] {
    std::vector<float> sums(kWords * kWidth, -1);
    ThreadExecutor executor(2);
    embed(EmbedBackward<float>{.ids = ids.data(),
                               .grad = grad.data(),
                               .grad_weight = sums.data(),
                               .tokens = kTokens,
                               .vocabulary = kWords,
                               .width = kWidth},
          executor);
    EXPECT_EQ(sums, want);
  });
}

TEST(AdamKernel, AgreesWithTheFormulaAtEveryLevel) {
  constexpr int64_t kCount = 101;
  const auto params = normals<float>(kCount, 1), grads = normals<float>(kCount, 2);
  at_every_level([&] {
    std::vector<float> now = params.kept, mean(kCount, 0.5F), variance(kCount, 0.25F);
    std::vector<uint16_t> copy(kCount);
    SerialExecutor executor;
    AdamPass<float> job{.params = now.data(),
                        .mean = mean.data(),
                        .variance = variance.data(),
                        .grads = grads.kept.data(),
                        .copy = copy.data(),
                        .count = kCount,
                        .beta1 = 0.9,
                        .beta2 = 0.98,
                        .eps = 1e-6F,
                        .rate = 0.1F};
    job.variance_correction = 2, job.decay = 0.01F, job.grad_scale = 3;
    adam(job, executor);
    for (int64_t i = 0; i < kCount; ++i) {
      const double g = 3 * grads.exact[i], m = 0.45 + 0.1 * g, v = 0.245 + 0.02 * g * g;
      const double want = params.exact[i] * 0.99 - 0.1 * m / (std::sqrt(2 * v) + 1e-6);
      EXPECT_NEAR(mean[i], m, 1e-6);      // three roundings of numbers below two,
      EXPECT_NEAR(variance[i], v, 1e-6);  // and below four
      EXPECT_NEAR(now[i], want, 2e-6);
      EXPECT_NEAR(widened(copy[i]), want, std::abs(want) * 0x1p-8);
    }
  });
}

TEST(AdamKernel, KeepsTheDigitsOfOneMinusBeta) {
  constexpr double kBeta = 0.99999;
  at_every_level([] {
    std::vector<float> now(5), mean(5), variance(5);
    const std::vector<float> grads(5, 2);
    SerialExecutor executor;
    adam(AdamPass<float>{.params = now.data(),
                         .mean = mean.data(),
                         .variance = variance.data(),
                         .grads = grads.data(),
                         .count = 5,
                         .beta1 = kBeta,
                         .beta2 = kBeta},
         executor);
    for (int i = 0; i < 5; ++i) {  // a rounding for each factor and product
      EXPECT_NEAR(mean[i], 2 * (1 - kBeta), 2 * (1 - kBeta) * 0x1p-22);
      EXPECT_NEAR(variance[i], 4 * (1 - kBeta), 4 * (1 - kBeta) * 0x1p-22);
    }
  });
}

TEST(AdagradKernel, AgreesWithTheFormulaAtEveryLevel) {
  constexpr int64_t kCount = 101;
  const auto params = normals<float>(kCount, 1), grads = normals<float>(kCount, 2);
  at_every_level([&] {
    std::vector<float> now = params.kept, sum(kCount, 0.25F);
    std::vector<uint16_t> copy(kCount);
    SerialExecutor executor;
    adagrad({.params = now.data(),
             .sum = sum.data(),
             .grads = grads.kept.data(),
             .copy = copy.data(),
             .count = kCount,
             .eps = 0.5F,
             .rate = 0.1F,
             .grad_scale = 3},
            executor);
    for (int64_t i = 0; i < kCount; ++i) {
      const double g = 3 * grads.exact[i], s = 0.25 + g * g, want = params.exact[i] - 0.1 * g / (std::sqrt(s) + 0.5);
      EXPECT_NEAR(sum[i], s, s * 0x1p-21);  // roundings of the scaled gradient, which counts twice, and of the sum
      EXPECT_NEAR(now[i], want, 1e-6);      // a rounding of numbers below four, and some of steps below 0.1
      EXPECT_NEAR(widened(copy[i]), want, std::abs(want) * 0x1p-8);
    }
  });
}

TEST(SumOfSquares, IsTheSameForEveryNumberOfThreads) {
  const auto values = normals<float>(100001, 1);
  double want = 0;
  for (const double x : values.exact) want += x * x;
  SerialExecutor one;
  ThreadExecutor three(3);
  EXPECT_NEAR(sum_of_squares(values.kept.data(), 100001, one), want, 1e-12 * want);
  EXPECT_EQ(sum_of_squares(values.kept.data(), 100001, one), sum_of_squares(values.kept.data(), 100001, three));
}

}  // namespace
}  // namespace fovea::kernels::elementwise_test
