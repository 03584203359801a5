#include "fovea/kernels/layer/gated.h"

#include <array>

#include "fovea/kernels/layer/dropout.h"
#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::gated_test {
namespace {

using testing::at_every_level;
using testing::expect_close;
using testing::narrowed;
using testing::normals;
using testing::widened;

constexpr int64_t kSeed = 5;

// The argument of the tanh.
double inside(double a) { return std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a); }

// f(a) in double, and its derivative by a central difference: its own error is the third derivative, of at most about
// 1, times 1e-8 / 6.
double activation(Gate gate, double a) {
  if (gate == Gate::kGeluTanh) return a / (1 + std::exp(-2 * inside(a)));
  return gate == Gate::kGelu ? a * std::erfc(-a * std::sqrt(0.5)) / 2 : a / (1 + std::exp(-a));
}
// The factor by which the roundings of an activation may grow: an exponential's relative error is the error of its
// argument, which is computed by several roundings where it is not a itself.
double growth(Gate gate, double a) { return gate == Gate::kGeluTanh ? 1 + 2 * std::abs(inside(a)) : 1; }
double slope(Gate gate, double a) { return (activation(gate, a + 1e-4) - activation(gate, a - 1e-4)) / 2e-4; }

template <class T>
struct GatedProblem {
  Gate gate;
  float rate;
  int64_t rows, width, gap;  // gap: elements between rows of x
  int64_t stride() const { return 2 * width + gap; }
  testing::Values<T> x = normals<T>(rows * stride(), 1), grad_out = normals<T>(rows * width, 2);
  DropoutMask mask() const { return {.rate = rate, .seed = kSeed}; }
};

template <class T>
void check_gated(const GatedProblem<T>& p, Executor& executor) {
  const int64_t count = p.rows * p.width;
  std::vector<T> out(count), grad_x(2 * count);
  GatedForward<T> forward{.x = p.x.kept.data(), .out = out.data()};
  forward.rows = p.rows, forward.width = p.width, forward.x_stride = p.stride();
  forward.gate = p.gate, forward.dropout = p.mask();
  gated(forward, executor);
  GatedBackward<T> backward{.x = p.x.kept.data(), .grad_out = p.grad_out.kept.data(), .grad_x = grad_x.data()};
  backward.rows = p.rows, backward.width = p.width, backward.x_stride = p.stride();
  backward.gate = p.gate, backward.dropout = p.mask();
  gated(backward, executor);

  std::vector<double> want(count), size(count), want_grad(2 * count), grad_size(2 * count);
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t i = 0; i < p.width; ++i) {
      const int64_t at = r * p.width + i;
      const double a = p.x.exact[r * p.stride() + i], b = p.x.exact[r * p.stride() + p.width + i];
      const bool kept = p.rate == 0 || element_survives(kSeed, at, dropout_threshold(p.rate));
      const double factor = kept ? 1 / (1 - double{p.rate}) : 0, grad = p.grad_out.exact[at] * factor;
      want[at] = activation(p.gate, a) * b * factor;
      // A factor of up to four roundings each in the activation, its slope and the products.
      size[at] = 2 * growth(p.gate, a) * std::abs(want[at]);
      want_grad[2 * r * p.width + i] = grad * b * slope(p.gate, a);
      // The slope's parts are below 1.2 and may cancel.
      grad_size[2 * r * p.width + i] = 2 * growth(p.gate, a) * std::abs(grad * b);
      want_grad[(2 * r + 1) * p.width + i] = grad * activation(p.gate, a);
      grad_size[(2 * r + 1) * p.width + i] = 2 * growth(p.gate, a) * std::abs(grad * activation(p.gate, a));
    }
  }
  expect_close(out, want, size);
  expect_close(grad_x, want_grad, grad_size);
}

TEST(GatedKernel, IsItsDefinitionAtEveryLevel) {
  for (const Gate gate : {Gate::kGelu, Gate::kGeluTanh, Gate::kSilu}) {
    for (const float rate : {0.0F, 0.3F}) {
      for (const auto& [rows, width, gap] : {std::array<int64_t, 3>{1, 1, 0}, {70, 37, 3}, {3, 160, 0}, {200, 70, 0}}) {
        const GatedProblem<float> in_float{gate, rate, rows, width, gap};
        const GatedProblem<uint16_t> in_bfloat16{gate, rate, rows, width, gap};
        at_every_level([&] {
          SerialExecutor serial;
          ThreadExecutor threads(3);
          check_gated(in_float, serial);
          check_gated(in_bfloat16, serial);
          check_gated(in_float, threads);
        });
      }
    }
  }
}

TEST(GatedKernel, UnitsWithoutAGateAreTheirDefinitionAtEveryLevel) {
  for (const Gate gate : {Gate::kGelu, Gate::kGeluTanh, Gate::kSilu}) {
    for (const float rate : {0.0F, 0.3F}) {
      const int64_t rows = 70, width = 37, stride = 40;
      const auto x = normals<float>(rows * stride, 1), grad_out = normals<float>(rows * width, 2);
      std::vector<double> want, size, want_grad, grad_size;
      for (int64_t at = 0; at < rows * width; ++at) {
        const double a = x.exact[at / width * stride + at % width];
        const bool kept = rate == 0 || element_survives(kSeed, at, dropout_threshold(rate));
        const double factor = kept ? 1 / (1 - double{rate}) : 0, grad = grad_out.exact[at] * factor;
        want.push_back(activation(gate, a) * factor), size.push_back(2 * growth(gate, a) * std::abs(want.back()));
        want_grad.push_back(grad * slope(gate, a)), grad_size.push_back(2 * growth(gate, a) * std::abs(grad));
      }
      at_every_level([&] {
        std::vector<float> out(rows * width), grad_x(rows * width);
        GatedForward<float> forward{.x = x.kept.data(), .out = out.data(), .rows = rows, .width = width};
        forward.x_stride = stride, forward.gate = gate, forward.units = Units::kPlain;
        forward.dropout = {.rate = rate, .seed = kSeed};
        GatedBackward<float> backward{.x = x.kept.data(), .grad_out = grad_out.kept.data(), .grad_x = grad_x.data()};
        backward.rows = rows, backward.width = width, backward.x_stride = stride;
        backward.gate = gate, backward.units = Units::kPlain, backward.dropout = forward.dropout;
        ThreadExecutor threads(3);
        gated(forward, threads), gated(backward, threads);
        expect_close(out, want, size);
        expect_close(grad_x, want_grad, grad_size);
      });
    }
  }
}

// Far from zero f(a) is a or nothing; what is not a number stays that.
TEST(GatedKernel, KeepsItsLimits) {
  const std::vector<float> x = {200, -200, 30, -30, 0, std::nanf(""), /*b:*/ 1, 1, 1, 1, 1, 1}, ones(6, 1);
  at_every_level([&] {
    for (const Gate gate : {Gate::kGelu, Gate::kGeluTanh, Gate::kSilu}) {
      std::vector<float> out(6), grad_x(12);
      SerialExecutor executor;
      gated(GatedForward<float>{.x = x.data(), .out = out.data(), .rows = 1, .width = 6, .x_stride = 12, .gate = gate},
            executor);
      GatedBackward<float> backward{.x = x.data(), .grad_out = ones.data(), .grad_x = grad_x.data()};
      backward.rows = 1, backward.width = 6, backward.x_stride = 12, backward.gate = gate;
      gated(backward, executor);
      for (const int64_t i : {0, 2}) {
        EXPECT_EQ(out[i], x[i]);
        EXPECT_NEAR(grad_x[i], 1, 1e-7);
      }
      for (const int64_t i : {1, 3}) {  // silu(-30) is -30 e^-30, below 3e-12
        EXPECT_NEAR(out[i], 0, 3e-12);
        EXPECT_NEAR(grad_x[i], 0, 3e-12);
      }
      EXPECT_EQ(out[4], 0);
      EXPECT_NEAR(grad_x[4], 0.5, 1e-7);
      EXPECT_TRUE(std::isnan(out[5]) && std::isnan(grad_x[5]) && std::isnan(grad_x[11]));
    }
  });
}

}  // namespace
}  // namespace fovea::kernels::gated_test
