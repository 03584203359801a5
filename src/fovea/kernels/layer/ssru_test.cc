#include "fovea/kernels/layer/ssru.h"

#include <array>

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::ssru_test {
namespace {

using testing::at_every_level;
using testing::expect_close;
using testing::normals;

template <class T>
struct SsruProblem {
  std::vector<int64_t> offsets;
  int64_t width, gap;  // gap: elements between rows of `projected`
  int64_t tokens() const { return offsets.back(); }
  int64_t stride() const { return 2 * width + gap; }
  int64_t sequences() const { return std::ssize(offsets) - 1; }
  testing::Values<T> projected = normals<T>(tokens() * stride(), 1), grad_out = normals<T>(tokens() * width, 2);
};

// One column of one sequence by the definition in double: the states, and the derivatives of the sum of grad * out.
struct Column {
  std::vector<double> value, gate, grad;
  double begin = 0;

  std::vector<double> states() const {
    std::vector<double> all;
    double state = begin;
    for (size_t t = 0; t < value.size(); ++t) {
      const double open = 1 / (1 + std::exp(-gate[t]));
      all.push_back(state = open * state + (1 - open) * value[t]);
    }
    return all;
  }
  // Only where out is positive with the numbers as they are, so that a step over 0 does not matter.
  double weighted(const std::vector<bool>& positive) const {
    double sum = 0;
    const std::vector<double> all = states();
    for (size_t t = 0; t < all.size(); ++t) sum += positive[t] ? grad[t] * all[t] : 0;
    return sum;
  }
  double derivative(std::vector<double> Column::*member, size_t t, const std::vector<bool>& positive) const {
    constexpr double kStep = 1e-4;  // the error is the third derivative, below 1, times 1e-8 / 6
    Column above = *this, below = *this;
    (above.*member)[t] += kStep, (below.*member)[t] -= kStep;
    return (above.weighted(positive) - below.weighted(positive)) / (2 * kStep);
  }
};

template <class T>
Column column_of(const SsruProblem<T>& p, int64_t sequence, int64_t i) {
  Column column;
  for (int64_t t = p.offsets[sequence]; t < p.offsets[sequence + 1]; ++t) {
    column.value.push_back(p.projected.exact[t * p.stride() + i]);
    column.gate.push_back(p.projected.exact[t * p.stride() + p.width + i]);
    column.grad.push_back(p.grad_out.exact[t * p.width + i]);
  }
  return column;
}

template <class T>
std::vector<T> forward(const SsruProblem<T>& p, Executor& executor, float* states = nullptr) {
  std::vector<T> out(p.tokens() * p.width);
  SsruForward<T> job{
      .projected = p.projected.kept.data(), .offsets = p.offsets.data(), .states = states, .out = out.data()};
  job.sequences = p.sequences(), job.width = p.width, job.stride = p.stride();
  ssru(job, executor);
  return out;
}

template <class T>
std::vector<T> backward(const SsruProblem<T>& p, Executor& executor) {
  std::vector<T> grad(p.tokens() * 2 * p.width);
  SsruBackward<T> job{.projected = p.projected.kept.data(),
                      .offsets = p.offsets.data(),
                      .grad_out = p.grad_out.kept.data(),
                      .grad_projected = grad.data()};
  job.sequences = p.sequences(), job.width = p.width, job.stride = p.stride();
  ssru(job, executor);
  return grad;
}

template <class T>
void check_ssru(const SsruProblem<T>& p, Executor& executor) {
  const std::vector<T> out = forward(p, executor), grad = backward(p, executor);
  std::vector<double> want(out.size()), want_grad(grad.size()), sizes(out.size(), 8), grad_sizes(grad.size(), 64);
  for (int64_t sequence = 0; sequence < p.sequences(); ++sequence) {
    for (int64_t i = 0; i < p.width; ++i) {
      const Column column = column_of(p, sequence, i);
      const std::vector<double> states = column.states();
      std::vector<bool> positive;
      for (const double state : states) positive.push_back(state > 0);
      for (size_t t = 0; t < states.size(); ++t) {
        const int64_t token = p.offsets[sequence] + static_cast<int64_t>(t);
        want[token * p.width + i] = std::max(0.0, states[t]);
        want_grad[token * 2 * p.width + i] = column.derivative(&Column::value, t, positive);
        want_grad[(token * 2 + 1) * p.width + i] = column.derivative(&Column::gate, t, positive);
      }
    }
  }
  // States are means of normal numbers: below 8, the least size, and a gradient sums a few of them.
  expect_close(out, want, sizes);
  expect_close(grad, want_grad, grad_sizes);
}

TEST(SsruKernel, IsItsDefinitionAtEveryLevel) {
  const std::vector<std::vector<int64_t>> all_offsets = {{0, 1}, {0, 7, 7, 8, 19}, {0, 0}, {0, 3, 40}};
  for (const std::vector<int64_t>& offsets : all_offsets) {
    for (const auto& [width, gap] : {std::array<int64_t, 2>{1, 0}, {37, 3}, {160, 0}}) {
      const SsruProblem<float> in_float{offsets, width, gap};
      const SsruProblem<uint16_t> in_bfloat16{offsets, width, gap};
      at_every_level([&] {
        SerialExecutor serial;
        ThreadExecutor threads(3);
        check_ssru(in_float, serial);
        check_ssru(in_bfloat16, serial);
        EXPECT_EQ(forward(in_float, serial), forward(in_float, threads));
        EXPECT_EQ(backward(in_float, serial), backward(in_float, threads));
      });
    }
  }
}

// Token by token, with the states between, a sequence comes to the same bits, and so it does beside others.
TEST(SsruKernel, StepsAreTheWholePassToTheBit) {
  const SsruProblem<float> whole{{0, 9, 9, 20}, 70, 0};
  at_every_level([&] {
    SerialExecutor serial;
    const std::vector<float> out = forward(whole, serial);
    for (int64_t sequence = 0; sequence < whole.sequences(); ++sequence) {
      std::vector<float> states(whole.width, 0.0F);
      for (int64_t t = whole.offsets[sequence]; t < whole.offsets[sequence + 1]; ++t) {
        SsruProblem<float> step{{0, 1}, whole.width, 0};
        const auto* from = whole.projected.kept.data() + t * whole.stride();
        step.projected.kept.assign(from, from + whole.stride());
        const std::vector<float> one = forward(step, serial, states.data());
        EXPECT_TRUE(std::equal(one.begin(), one.end(), out.begin() + t * whole.width));
      }
    }
  });
}

TEST(SsruKernel, WhatIsNotANumberStaysInItsSequence) {
  SsruProblem<float> p{{0, 3, 6}, 20, 0};
  p.projected.kept[p.stride() + 4] = std::nanf("");
  at_every_level([&] {
    SerialExecutor serial;
    const std::vector<float> out = forward(p, serial);
    for (int64_t t = 0; t < p.tokens(); ++t) {
      for (int64_t i = 0; i < p.width; ++i)
        EXPECT_EQ(std::isnan(out[t * p.width + i]), i == 4 && t >= 1 && t < 3) << t << ' ' << i;
    }
  });
}

}  // namespace
}  // namespace fovea::kernels::ssru_test
