#include "fovea/kernels/layer/head_norm.h"

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::head_norm_test {
namespace {

using testing::at_every_level;
using testing::normals;
using testing::Values;

constexpr int64_t kRows = 70, kWidth = 37;  // more than one piece of rows, no whole vectors
constexpr double kEps = 1e-8;

enum class Gate : uint8_t { kNone, kSigmoid };

// The definition, in double: sum over a row of y times weight, with what is nudged. Parameters [4][kWidth]: z, gain,
// gate, bias.
struct Definition {
  Centre around;
  Gate gate;

  std::vector<double> row(const std::vector<double>& p) const {
    const auto value = [&](int64_t which, int64_t i) { return p[static_cast<size_t>(which * kWidth + i)]; };
    double centre = 0, square = 0;
    for (int64_t i = 0; i < kWidth && around == Centre::kMean; ++i) centre += value(0, i) / kWidth;
    for (int64_t i = 0; i < kWidth; ++i) square += (value(0, i) - centre) * (value(0, i) - centre) / kWidth;
    std::vector<double> y;
    for (int64_t i = 0; i < kWidth; ++i) {
      const double open = gate == Gate::kNone ? 1 : 1 / (1 + std::exp(-value(0, i) * value(2, i)));
      y.push_back(open * ((value(0, i) - centre) / std::sqrt(square + kEps) * value(1, i) + value(3, i)));
    }
    return y;
  }
  // The slope of sum(weight y) in parameter `at`, by central differences, whose error is the third derivative's 1e-9.
  double slope(std::vector<double> p, size_t at, const double* weight) const {
    double change = 0;
    for (const double step : {1e-4, -1e-4}) {
      const double before = p[at];
      p[at] += step;
      const std::vector<double> y = row(p);
      for (size_t i = 0; i < y.size(); ++i) change += y[i] * weight[i] * (step > 0 ? 1 : -1);
      p[at] = before;
    }
    return change / 2e-4;
  }
};

template <class T>
struct Tensors {
  Values<T> z = normals<T>(kRows * kWidth, 1), gain = normals<T>(kWidth, 2), gate = normals<T>(kWidth, 3),
            bias = normals<T>(kWidth, 4), grad = normals<T>(kRows * kWidth, 5);
  std::vector<T> y = std::vector<T>(kRows * kWidth), grad_z = y, grad_gain = std::vector<T>(kWidth),
                 grad_gate = grad_gain, grad_bias = grad_gain;
  std::vector<float> centre = std::vector<float>(kRows), rstd = centre;

  std::vector<double> parameters(int64_t r) const {
    const auto row = z.exact.begin() + r * kWidth;
    std::vector<double> all(row, row + kWidth);
    for (const auto* part : {&gain.exact, &gate.exact, &bias.exact}) all.insert(all.end(), part->begin(), part->end());
    return all;
  }
  void run(const Definition& is) {
    const bool gated = is.gate == Gate::kSigmoid;
    const HeadNorm<T> job{.z = z.kept.data(),
                          .gain = gain.kept.data(),
                          .gate = gated ? gate.kept.data() : nullptr,
                          .bias = bias.kept.data(),
                          .centre = centre.data(),
                          .rstd = rstd.data(),
                          .rows = kRows,
                          .width = kWidth,
                          .around = is.around,
                          .eps = static_cast<float>(kEps)};
    SerialExecutor executor;
    head_norm(job, y.data(), executor);
    head_norm_backward(job,
                       {.grad_y = grad.kept.data(),
                        .grad_z = grad_z.data(),
                        .grad_gain = grad_gain.data(),
                        .grad_gate = gated ? grad_gate.data() : nullptr,
                        .grad_bias = grad_bias.data()},
                       executor);
  }
};

// Some dozen roundings of numbers below ten; a bfloat16 result is rounded to 2^-8 of itself besides.
template <class T>
double tolerance(double value) {
  return 2e-5 + (sizeof(T) == 2 ? std::abs(value) * 0x1p-8 : 0);
}

template <class T>
void check(const Definition& is) {
  Tensors<T> t;
  t.run(is);
  std::vector<double> sums(static_cast<size_t>(4 * kWidth));
  for (int64_t r = 0; r < kRows; ++r) {
    const std::vector<double> p = t.parameters(r), y = is.row(p);
    const double* weight = t.grad.exact.data() + r * kWidth;
    for (int64_t i = 0; i < kWidth; ++i) {
      const auto at = static_cast<size_t>(r * kWidth + i), column = static_cast<size_t>(i);
      EXPECT_NEAR(testing::widened(t.y[at]), y[column], tolerance<T>(y[column])) << r << ' ' << i;
      for (size_t which = 1; which < 4; ++which) {
        const size_t parameter = which * kWidth + column;
        sums[parameter] += is.slope(p, parameter, weight);
      }
      if (r % 23 != 0) continue;
      const double slope = is.slope(p, column, weight);
      EXPECT_NEAR(testing::widened(t.grad_z[at]), slope, tolerance<T>(slope)) << r << ' ' << i;
    }
  }
  for (size_t i = 0; i < kWidth; ++i) {
    // Seventy addends each.
    const double gain = sums[kWidth + i], gate = sums[2 * kWidth + i], bias = sums[3 * kWidth + i];
    EXPECT_NEAR(testing::widened(t.grad_gain[i]), gain, 5 * tolerance<T>(gain)) << i;
    EXPECT_NEAR(testing::widened(t.grad_bias[i]), bias, 5 * tolerance<T>(bias)) << i;
    EXPECT_NEAR(testing::widened(t.grad_gate[i]), is.gate == Gate::kNone ? 0 : gate, 5 * tolerance<T>(gate)) << i;
  }
}

TEST(HeadNormKernel, IsItsDefinitionAtEveryLevel) {
  at_every_level([] {
    for (const Centre kind : {Centre::kZero, Centre::kMean}) {
      for (const Gate gate : {Gate::kNone, Gate::kSigmoid}) {
        check<float>({kind, gate});
        check<uint16_t>({kind, gate});
      }
    }
  });
}

// A token whose heads gave nothing (ReLA's null rows) has a finite gradient: 1 / sqrt(eps) times its own.
TEST(HeadNormKernel, KeepsRowsOfZerosFinite) {
  at_every_level([] {
    Tensors<float> t;
    std::fill_n(t.z.kept.begin(), kWidth, 0.0F);
    t.run({Centre::kZero, Gate::kSigmoid});
    for (size_t i = 0; i < kWidth; ++i) {
      EXPECT_EQ(t.y[i], t.bias.kept[i] / 2);
      // by way of the norm, and of the gate: the sigmoid's slope at 0 is 1/4
      const double expected =
          t.grad.exact[i] * (t.gain.exact[i] / 2 / std::sqrt(kEps) + t.gate.exact[i] * t.bias.exact[i] / 4);
      EXPECT_NEAR(t.grad_z[i], expected, 1e-5 * std::abs(expected));
    }
  });
}

// Large enough to be divided among threads.
TEST(HeadNormKernel, GivesTheSameBitsWithAnyNumberOfThreads) {
  constexpr int64_t kMany = 400, kWide = 129;
  const auto z = normals<float>(kMany * kWide, 1), gain = normals<float>(kWide, 2), gate = normals<float>(kWide, 3);
  const auto grad = normals<float>(kMany * kWide, 4);
  const auto results = [&](Executor& executor) {
    std::vector<float> all(2 * kMany * kWide + 2 * kWide), statistics(2 * kMany);
    float *y = all.data(), *grad_z = y + kMany * kWide, *grad_gain = grad_z + kMany * kWide;
    const HeadNorm<float> job{.z = z.kept.data(),
                              .gain = gain.kept.data(),
                              .gate = gate.kept.data(),
                              .centre = statistics.data(),
                              .rstd = statistics.data() + kMany,
                              .rows = kMany,
                              .width = kWide,
                              .eps = 1e-8F};
    head_norm(job, y, executor);
    head_norm_backward(
        job, {.grad_y = grad.kept.data(), .grad_z = grad_z, .grad_gain = grad_gain, .grad_gate = grad_gain + kWide},
        executor);
    return all;
  };
  SerialExecutor serial;
  const std::vector<float> one = results(serial);
  for (const int threads : {2, 3}) {
    ThreadExecutor several(threads);
    EXPECT_EQ(results(several), one) << threads;
  }
}

}  // namespace
}  // namespace fovea::kernels::head_norm_test
