#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// cpu-dense in bfloat16 gives what it gives in float32 for the same inputs, rounded: also where a product by pairs
// would take numbers for zero, and where a gradient is a small difference of large numbers. Other mechanisms, shapes
// and inputs are the business of kernel_list_test.cc.
namespace fovea::kernels {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

constexpr int64_t kQueries = 110, kKeys = 330;
constexpr double kRounding = 0x1p-8, kLeast = 0x1p-133;  // of bfloat16: relative; its least number

struct Numbers {
  double q = 1, k = 1, v = 1, grad_out = 1;  // times whole numbers of -3 ... 3
  double value_mean = 0;                     // of values
};

Inputs draw(DType dtype, int64_t dim, const Numbers& numbers) {
  Rng rng(static_cast<uint64_t>(dim));
  const auto array = [&](int64_t tokens, double unit, double mean) {
    Array out(dtype, Layout::kPacked, tokens, 1, dim);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < dim; ++i) out.set(t, 0, i, mean + unit * (static_cast<double>(rng.below(7)) - 3));
    }
    return out;
  };
  Inputs in;
  in.q = array(kQueries, numbers.q, 0), in.k = array(kKeys, numbers.k, 0);
  in.v = array(kKeys, numbers.v, numbers.value_mean), in.grad_out = array(kQueries, numbers.grad_out, 0);
  in.alpha = {1};
  in.scale = static_cast<float>(1 / (numbers.q * numbers.k * 8 * std::sqrt(static_cast<double>(dim))));
  return in;
}

Results run(DType dtype, const char* spec, int64_t dim, const Numbers& numbers) {
  AttentionProblem p;
  p.spec = parse_attention(spec);
  p.dtype = dtype, p.head_dim = dim, p.needs_backward = true;
  p.sequences = {{0, kQueries, 0, kKeys}};
  SerialExecutor serial;
  return testing_suite::run_kernel(kDenseKernel, p, draw(dtype, dim, numbers), Layout::kPacked, serial);
}

void expect_rounded(const char* name, const Array& got, const Array& right) {
  double most = 0;
  for (int64_t t = 0; t < right.tokens(); ++t) {
    for (int64_t i = 0; i < right.width(); ++i) most = std::max(most, std::abs(right.get(t, 0, i)));
  }
  for (int64_t t = 0; t < right.tokens(); ++t) {
    for (int64_t i = 0; i < right.width(); ++i) {
      const double x = right.get(t, 0, i);
      EXPECT_NEAR(got.get(t, 0, i), x, kRounding * std::abs(x) + 0x1p-13 * most + kLeast)
          << name << " " << t << " " << i;
    }
  }
}

void expect_same(const char* spec, const Numbers& numbers) {
  for (const int64_t dim : {7, 20, 64, 130}) {
    SCOPED_TRACE(std::string(spec) + " dim " + std::to_string(dim));
    const Results right = run(DType::kFloat32, spec, dim, numbers), got = run(DType::kBFloat16, spec, dim, numbers);
    expect_rounded("out", got.out, right.out);
    expect_rounded("grad_q", got.grad_q, right.grad_q);
    expect_rounded("grad_k", got.grad_k, right.grad_k);
    expect_rounded("grad_v", got.grad_v, right.grad_v);
  }
}

class DenseBf16 : public AtLevel {};

TEST_P(DenseBf16, GradientsKnowWhatRoundingTookFromTheOutput) {
  expect_same("full", {.value_mean = 20});
  expect_same("relu", {.value_mean = 20});
}

TEST_P(DenseBf16, MultipliesNumbersBelowTheNormalRange) {
  for (const char* spec : {"full", "relu"}) {
    expect_same(spec, {.q = 0x1p-127, .k = 0x1p60, .grad_out = 0x1p-40});
    expect_same(spec, {.q = 0x1p60, .k = 0x1p-127, .grad_out = 0x1p-40});
    expect_same(spec, {.v = 0x1p60, .grad_out = 0x1p-127});
  }
  // Not softmax, whose output then keeps no digits for the gradient, in bfloat16.
  expect_same("relu", {.v = 0x1p-127, .grad_out = 0x1p60});
}

INSTANTIATE_TEST_SUITE_P(Levels, DenseBf16, testing::ValuesIn(levels_of_this_machine()), level_title);

}  // namespace
}  // namespace fovea::kernels
