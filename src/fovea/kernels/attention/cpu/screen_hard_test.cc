#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// Hard rows: small whole numbers, times powers of two, so that scores are exact and ties are ties.
namespace fovea::kernels::screen_hard_test {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

struct Hard {
  const char* name;
  double q_power, k_power;
  std::function<double(Rng&, int64_t row, int64_t i)> key;
};

double small_integer(Rng& rng) { return static_cast<double>(rng.below(7)) - 3; }

const std::vector<Hard>& hard_kinds() {
  const auto any = [](Rng& rng, int64_t, int64_t) { return small_integer(rng); };
  static const std::vector<Hard> kKinds = {
      {"many ties", 0, -3, any},
      {"all keys equal", 0, -3, [](Rng&, int64_t, int64_t i) { return static_cast<double>(i % 3) - 1; }},
      {"keys in turn", 0, -3,
       [](Rng&, int64_t row, int64_t i) { return static_cast<double>((row % 40 + 3 * i) % 7) - 3; }},
      {"rising", 0, -8, [](Rng&, int64_t row, int64_t i) { return i == 0 ? static_cast<double>(row) : 0; }},
      {"falling", 0, -8, [](Rng&, int64_t row, int64_t i) { return i == 0 ? static_cast<double>(-row) : 0; }},
      {"a large shared vector", 0, -3, [](Rng& rng, int64_t, int64_t) { return 8192 + small_integer(rng); }},
      {"huge", 60, 40, any},
      {"tiny", -100, -3, any},
      {"denormal", -140, 0, any},
      {"too small for a product", -100, -100, any},
      // The block of this key is the first: the other keys are nothing beside it.
      {"one far below", 0, -93,
       [](Rng& rng, int64_t row, int64_t i) {
         return row != 1 ? small_integer(rng) : i == 0 ? -std::ldexp(1.0, 126) : 0;
       }},
  };
  return kKinds;
}

struct HardProblem {
  AttentionProblem problem;
  Inputs inputs;
};

HardProblem hard_problem(const char* spec, const Hard& hard, AttentionKind kind, const std::vector<int64_t>& lengths,
                         int64_t head_dim = 17) {
  HardProblem out;
  AttentionProblem& p = out.problem;
  p.spec = parse_attention(spec);
  p.kind = kind;
  p.num_heads = 2;
  p.head_dim = head_dim;
  p.needs_backward = true;
  int64_t tokens = 0;
  for (const int64_t n : lengths) {
    p.sequences.push_back({tokens, n, tokens, n});
    tokens += n;
  }
  Rng rng(11);
  Inputs& in = out.inputs;
  for (Array* a : {&in.q, &in.k, &in.v, &in.grad_out}) {
    *a = Array(DType::kFloat32, Layout::kPadded, tokens, 2, head_dim);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < head_dim; ++i) {
        in.q.set(t, h, i,
                 std::ldexp(i == 0 ? 1 + static_cast<double>(rng.below(3)) : small_integer(rng),
                            static_cast<int>(hard.q_power)));
        in.k.set(t, h, i, std::ldexp(hard.key(rng, t, i), static_cast<int>(hard.k_power)));
        in.v.set(t, h, i, rng.normal());
        in.grad_out.set(t, h, i, rng.normal());
      }
    }
  }
  in.alpha = {1.5F, 1.5F};
  return out;
}

// Weights are at most 1 and sum to 1, so an output lies within max |v| < 6; a float sum of n terms is off by less than
// n 2^-24 of the sum of magnitudes, and exact scores carry no error of their own. Gradients are such sums times q, k.
// Relative to the largest value, or to the least that the terms of a sum reach.
double worst_error(const Array& got, const std::vector<double>& right, const Sequence& s, int64_t head,
                   double term = 0) {
  double worst = 0, largest = term;
  for (const double x : right) largest = std::max(largest, std::abs(x));
  for (int64_t t = 0; t < s.q_length; ++t) {
    for (int64_t i = 0; i < got.width(); ++i) {
      const double expected = right[static_cast<size_t>(t * got.width() + i)];
      const double error = std::abs(got.get(s.q_begin + t, head, i) - expected) / largest;
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

// The greatest derivative of a weight in its score, over rows of 600 keys: entmax's is p^(2 - alpha).
double greatest_derivative(const Transform& transform) {
  const auto* entmax = std::get_if<Entmax>(&transform);
  return entmax != nullptr && entmax->alpha > 2 ? std::pow(600, entmax->alpha - 2) : 1;
}

struct HardShape {
  int64_t keys = 600, head_dim = 17;
};

void check_hard(const Kernel& kernel, const char* spec, const Hard& hard, AttentionKind kind, HardShape shape = {}) {
  const HardProblem h = hard_problem(spec, hard, kind, {shape.keys}, shape.head_dim);
  const Transform& transform = h.problem.spec.transform;
  OracleInput one = testing_suite::one_head(h.problem, h.inputs, 0, 1);
  // Products below the least float are zero, and their scores tie.
  const bool vanishes = hard.q_power + hard.k_power < -150;
  if (vanishes) one.q.assign(one.q.size(), 0);
  const OracleOutput right = oracle_forward(one);
  const OracleGradients grads =
      oracle_backward(one, right, testing_suite::cotangents_of(h.problem, h.inputs, 0, 1).out);
  const Sequence& s = h.problem.sequences[0];
  const double tolerance = static_cast<double>(shape.keys) * 0x1p-24 * 4, derivative = greatest_derivative(transform);
  SerialExecutor serial;
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    const Results got = testing_suite::run_kernel(kernel, h.problem, h.inputs, Layout::kPacked, serial);
    const std::string what = cat(spec, ", ", hard.name, ", kind ", static_cast<int>(kind), ", ", name(level));
    EXPECT_LT(worst_error(got.out, right.out, s, 1), tolerance) << what;
    // If a score ties with the edge of its support, the gradient is undecided; a gradient that underflows is lost.
    if (std::holds_alternative<Sparsemax>(transform) || vanishes) continue;
    EXPECT_LT(worst_error(got.grad_v, grads.v, s, 1), tolerance) << what;
    // A gradient of scores is a small difference of large values: sums of products of head_dim terms beside it.
    if (hard.q_power > 0) continue;  // one weight is 1 there: all that remains of the difference is its rounding
    const auto terms = static_cast<double>(shape.head_dim);
    const double q_term = derivative * std::exp2(hard.q_power), k_term = derivative * std::exp2(hard.k_power);
    EXPECT_LT(worst_error(got.grad_q, grads.q, s, 1, k_term), terms * tolerance) << what;
    EXPECT_LT(worst_error(got.grad_k, grads.k, s, 1, q_term), terms * tolerance) << what;
  }
}

TEST(Screening, TakesHardRows) {
  for (const Hard& hard : hard_kinds()) {
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
      check_hard(kTopkKernel, "topk(8)", hard, kind);
      check_hard(kTopkKernel, "topk(5,keep=window(6))", hard, kind);
      for (const char* spec : {"sparsemax", "entmax(1.5)", "entmax(2.5)"}) check_hard(kEntmaxKernel, spec, hard, kind);
    }
  }
}

// Enough keys for the formats that long sequences of wide heads take.
TEST(Screening, TakesWideRows) {
  for (const size_t which : {0, 2, 5}) {
    const Hard& hard = hard_kinds()[which];
    check_hard(kTopkKernel, "topk(8)", hard, AttentionKind::kSelf, {1237, 90});
    check_hard(kTopkKernel, "topk(3,keep=window(6))", hard, AttentionKind::kCausal, {1031, 33});
    check_hard(kEntmaxKernel, "sparsemax", hard, AttentionKind::kSelf, {1301, 64});
  }
}

bool same_bits(const Results& a, const Results& b, int64_t begin, int64_t length) {
  return a.out.same_rows(b.out, begin, length) && a.grad_q.same_rows(b.grad_q, begin, length) &&
         a.grad_k.same_rows(b.grad_k, begin, length) && a.grad_v.same_rows(b.grad_v, begin, length);
}

// Lists that fit and lists that do not; threads, and a sequence alone.
TEST(Screening, GivesTheSameBitsForAnyThreadsAndCompany) {
  SerialExecutor serial;
  for (const char* spec : {"topk(8)", "window(300)+topk(20)", "entmax(1.3)", "sparsemax", "entmax(3)"}) {
    const Kernel& kernel = parse_attention(spec).selects() ? kTopkKernel : kEntmaxKernel;
    for (const Hard& hard : {hard_kinds()[0], hard_kinds()[1]}) {
      const HardProblem h = hard_problem(spec, hard, AttentionKind::kCausal, {530, 1, 300});
      const Results one = testing_suite::run_kernel(kernel, h.problem, h.inputs, Layout::kPacked, serial);
      for (const int threads : {2, 3}) {
        ThreadExecutor executor(threads);
        const Results several = testing_suite::run_kernel(kernel, h.problem, h.inputs, Layout::kPacked, executor);
        EXPECT_TRUE(same_bits(one, several, 0, 831)) << spec << ", " << hard.name << ", " << threads << " threads";
      }
      for (const Sequence& s : h.problem.sequences) {
        AttentionProblem alone = h.problem;
        alone.sequences = {s};
        const Results single = testing_suite::run_kernel(kernel, alone, h.inputs, Layout::kPacked, serial);
        EXPECT_TRUE(same_bits(one, single, s.q_begin, s.q_length))
            << spec << ", " << hard.name << ", " << s.q_length << " alone";
      }
    }
  }
}

TEST(Screening, SaysWhyItRefuses) {
  AttentionProblem problem;
  problem.spec = parse_attention("window(9)+relu");
  problem.dtype = DType::kFloat64;
  problem.head_dim = 300;
  EXPECT_EQ(join(kTopkKernel.refuses(problem), "; "),
            "float64 is left to the reference; head_dim 300 is above 256; the spec has no topk");
  EXPECT_EQ(join(kEntmaxKernel.refuses(problem), "; "),
            "float64 is left to the reference; head_dim 300 is above 256; "
            "the transform is neither sparsemax nor entmax");
}

}  // namespace
}  // namespace fovea::kernels::screen_hard_test
