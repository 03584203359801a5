#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// Attention over many pairs in bfloat16 gives what it gives in float32 for the same inputs, rounded: also where a
// product in bfloat16 would take numbers for zero, and where a gradient is a small difference of large numbers. Other
// mechanisms, shapes and inputs are the business of kernel_list_test.cc.
namespace fovea::kernels::dense_bf16_test {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

constexpr int64_t kHeads = 2;
constexpr double kRounding = 0x1p-8, kLeast = 0x1p-133;  // of bfloat16: relative; its least number
constexpr double kBelow = 0x1p-127;                      // the normal range, yet a number of bfloat16

struct Shape {
  int64_t queries = 110, keys = 330, dim = 64;
  const Kernel* kernel = &kDenseKernel;
};
// Several blocks of queries, too many to be packed all at once, and of keys; backward in parts.
constexpr Shape kLong = {.queries = 1100, .keys = 1150, .dim = 20};

// Element (token, head, i) of an array of `tokens`.
using Element = std::function<double(int64_t token, int64_t head, int64_t i)>;

struct Elements {
  Element q, k, v, grad_out;
  float scale = 1;
};

Inputs fill(DType dtype, const Shape& shape, const Elements& elements) {
  const auto array = [&](int64_t tokens, const Element& element) {
    Array out(dtype, Layout::kPadded, tokens, kHeads, shape.dim);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < shape.dim; ++i) out.set(t, h, i, element(t, h, i));
      }
    }
    return out;
  };
  Inputs in;
  in.q = array(shape.queries, elements.q), in.k = array(shape.keys, elements.k);
  in.v = array(shape.keys, elements.v), in.grad_out = array(shape.queries, elements.grad_out);
  in.alpha = {1, 1};
  in.scale = elements.scale;
  return in;
}

Results run(DType dtype, const char* spec, const Shape& shape, const Elements& elements) {
  AttentionProblem p;
  p.spec = parse_attention(spec);
  p.dtype = dtype, p.num_heads = kHeads, p.head_dim = shape.dim, p.needs_backward = true;
  p.sequences = {{0, shape.queries, 0, shape.keys}};
  ThreadExecutor threads(2);
  return testing_suite::run_kernel(*shape.kernel, p, fill(dtype, shape, elements), Layout::kPadded, threads);
}

// work(token, head, i)
template <class Work>
void for_each(const Array& array, Work&& work) {
  for (int64_t t = 0; t < array.tokens(); ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < array.width(); ++i) work(t, h, i);
    }
  }
}

void expect_rounded(const char* name, const Array& got, const Array& right) {
  for (int64_t h = 0; h < kHeads; ++h) {
    double most = 0;
    for (int64_t t = 0; t < right.tokens(); ++t) {
      for (int64_t i = 0; i < right.width(); ++i) most = std::max(most, std::abs(right.get(t, h, i)));
    }
    for (int64_t t = 0; t < right.tokens(); ++t) {
      for (int64_t i = 0; i < right.width(); ++i) {
        const double x = right.get(t, h, i);
        ASSERT_NEAR(got.get(t, h, i), x, kRounding * std::abs(x) + 0x1p-13 * most + kLeast)
            << name << " " << t << " " << h << " " << i;
      }
    }
  }
}

void expect_same(const char* spec, const Shape& shape, const Elements& elements) {
  SCOPED_TRACE(std::string(spec) + " dim " + std::to_string(shape.dim));
  const Results right = run(DType::kFloat32, spec, shape, elements), got = run(DType::kBFloat16, spec, shape, elements);
  expect_rounded("out", got.out, right.out);
  expect_rounded("grad_q", got.grad_q, right.grad_q);
  expect_rounded("grad_k", got.grad_k, right.grad_k);
  expect_rounded("grad_v", got.grad_v, right.grad_v);
}

struct Units {
  double q = 1, k = 1, v = 1, grad_out = 1;  // times whole numbers of -3 ... 3
  double value_mean = 0;                     // of values
};

void expect_same(const char* spec, const Units& units) {
  const auto drawn = [](double unit, double mean, uint64_t stream) -> Element {
    return [=](int64_t t, int64_t h, int64_t i) {
      Rng rng(stream, static_cast<uint64_t>((t * kHeads + h) * 256 + i));
      return mean + unit * (static_cast<double>(rng.below(7)) - 3);
    };
  };
  for (const Shape& shape : {Shape{.dim = 7}, Shape{.dim = 20}, Shape{.dim = 64}, Shape{.dim = 130}, kLong}) {
    const double root = std::sqrt(static_cast<double>(shape.dim));
    expect_same(spec, shape,
                {.q = drawn(units.q, 0, 1),
                 .k = drawn(units.k, 0, 2),
                 .v = drawn(units.v, units.value_mean, 3),
                 .grad_out = drawn(units.grad_out, 0, 4),
                 .scale = static_cast<float>(1 / (units.q * units.k * 8 * root))});
  }
}

class DenseBf16 : public LevelTest {};

TEST_P(DenseBf16, GradientsKnowWhatRoundingTookFromTheOutput) {
  expect_same("full", Units{.value_mean = 20});
  expect_same("relu", Units{.value_mean = 20});
}

// Keys alike: the values' parts of the query's gradient cancel, except for the rounding of their sums.
TEST_P(DenseBf16, GradientsCancelAsInFloat32) {
  const auto drawn = [](double mean, uint64_t stream) -> Element {
    return [=](int64_t t, int64_t h, int64_t i) {
      Rng rng(stream, static_cast<uint64_t>((t * kHeads + h) * 256 + i));
      return mean + static_cast<double>(rng.below(7)) - 3;
    };
  };
  const Elements elements = {.q = drawn(0, 1),
                             .k = [](int64_t, int64_t, int64_t) { return 1; },
                             .v = drawn(100, 3),
                             .grad_out = drawn(0, 4),
                             .scale = 0.125F};
  for (const Shape& shape : {Shape{.dim = 7}, Shape{.dim = 64}, Shape{.dim = 130}, kLong}) {
    const Array right = run(DType::kFloat32, "full", shape, elements).grad_q;
    const Array got = run(DType::kBFloat16, "full", shape, elements).grad_q;
    double most = 0;
    for_each(right, [&](int64_t t, int64_t h, int64_t i) { most = std::max(most, std::abs(right.get(t, h, i))); });
    ASSERT_GT(most, 0);
    for_each(got, [&](int64_t t, int64_t h, int64_t i) { ASSERT_NEAR(got.get(t, h, i), 0, 4 * most) << shape.dim; });
  }
}

TEST_P(DenseBf16, MultipliesNumbersBelowTheNormalRange) {
  for (const char* spec : {"full", "relu"}) {
    expect_same(spec, Units{.q = kBelow, .k = 0x1p60, .grad_out = 0x1p-40});
    expect_same(spec, Units{.q = 0x1p60, .k = kBelow, .grad_out = 0x1p-40});
    expect_same(spec, Units{.v = 0x1p60, .grad_out = kBelow});
    expect_same(spec, Units{.v = kBelow, .grad_out = 0x1p60});
  }
}

TEST_P(DenseBf16, KeepsProductsBelowTheNormalRange) {
  for (const char* spec : {"full", "relu"}) {
    expect_same(spec, Units{.q = 0x1p-66, .k = 0x1p-64});
    expect_same(spec, Units{.q = 0x1p-100, .k = 0x1p100, .v = 0x1p-100, .grad_out = 0x1p-30});
  }
}

// The last row of one head holds one such number, the only number of its array that is not zero.
TEST_P(DenseBf16, FindsALoneNumberBelowTheNormalRange) {
  const auto all = [](double x) -> Element { return [=](int64_t, int64_t, int64_t) { return x; }; };
  const auto lone = [](int64_t tokens) -> Element {
    return [=](int64_t t, int64_t h, int64_t i) { return t == tokens - 1 && h == 1 && i == 0 ? kBelow : 0; };
  };
  const auto first = [](double x) -> Element { return [=](int64_t, int64_t, int64_t i) { return i == 0 ? x : 0; }; };
  const Element one = all(1), large = first(0x1p100);
  for (const Shape& shape : {Shape{}, kLong}) {
    const Element query = lone(shape.queries), key = lone(shape.keys);
    for (const Elements& elements : {Elements{.q = query, .k = large, .v = one, .grad_out = one},
                                     Elements{.q = large, .k = key, .v = one, .grad_out = one},
                                     Elements{.q = one, .k = one, .v = large, .grad_out = query},
                                     Elements{.q = one, .k = one, .v = key, .grad_out = large}}) {
      expect_same("relu", shape, elements);
    }
  }
}

// Backward selects by the threshold that forward saved.
TEST_P(DenseBf16, SelectsTheSameInBothPasses) {
  const auto drawn = [](uint64_t stream) -> Element {
    return [=](int64_t t, int64_t h, int64_t i) {
      Rng rng(stream, static_cast<uint64_t>((t * kHeads + h) * 256 + i));
      return testing_suite::round_to(DType::kBFloat16, rng.normal());
    };
  };
  const Elements elements = {.q = drawn(1), .k = drawn(2), .v = drawn(3), .grad_out = drawn(4), .scale = 0.125F};
  expect_same("topk(5)", {.queries = 300, .keys = 340, .kernel = &kRowsKernel}, elements);
  expect_same("window(90)+topk(5)", {.queries = 300, .keys = 340, .kernel = &kRowsKernel}, elements);
}

INSTANTIATE_TEST_SUITE_P(Levels, DenseBf16, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::dense_bf16_test
