#include "fovea/kernels/attention/cpu/dense.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// ReLU's way through blocks of scores, from nearly all positive to nearly none: over small whole numbers every sum is
// exact, so that what is passed over must be what adds nothing, to the bit. And softmax far from its maximum. Other
// mechanisms, shapes and types are the business of kernel_list_test.cc.
namespace fovea::kernels::dense_test {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

struct Case {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t dim = 64;
  int lean = 0;  // four times it is added to q . k, whose deviation is 4 sqrt(dim)
  float dropout = 0;
};

struct Data {
  AttentionProblem problem;
  Inputs inputs;
};

Data make(const char* spec, const Case& c) {
  Data data;
  AttentionProblem& p = data.problem;
  p.spec = parse_attention(spec);
  p.kind = c.kind, p.head_dim = c.dim, p.dropout = c.dropout;
  p.needs_backward = true;
  p.sequences = {{0, 100, 0, 260}, {100, 215, 260, 430}};
  Rng rng(static_cast<uint64_t>(c.dim + 31));
  const auto draw = [&](int64_t tokens, double first) {
    Array out(DType::kFloat32, Layout::kPacked, tokens, 1, c.dim);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < c.dim; ++i) out.set(t, 0, i, i == 0 ? first : static_cast<double>(rng.below(7)) - 3);
    }
    return out;
  };
  Inputs& in = data.inputs;
  in.q = draw(315, 4), in.k = draw(690, c.lean), in.v = draw(690, 1), in.grad_out = draw(315, 1);
  in.alpha = {1};
  in.scale = 0.5F;
  // Three groups of rows without a positive score among others.
  for (const Sequence& s : p.sequences) {
    for (int64_t row = 24; c.lean > 0 && row < 60; ++row) {
      for (int64_t i = 0; i < c.dim; ++i) in.q.set(s.q_begin + row, 0, i, i == 0 ? -1 : 0);
    }
  }
  return data;
}

Results run(const Data& data, Executor& executor, const Kernel& kernel = kDenseKernel) {
  return testing_suite::run_kernel(kernel, data.problem, data.inputs, Layout::kPacked, executor);
}
Results run(const Data& data, const Kernel& kernel = kDenseKernel) {
  SerialExecutor serial;
  return run(data, serial, kernel);
}

std::vector<double> rows_of(const Array& array, int64_t begin, int64_t count) {
  std::vector<double> out;
  for (int64_t t = begin; t < begin + count; ++t) {
    for (int64_t i = 0; i < array.width(); ++i) out.push_back(array.get(t, 0, i));
  }
  return out;
}
std::vector<double> all_of(const Array& array) { return rows_of(array, 0, array.tokens()); }

void expect_exact(const Data& data, const Results& got) {
  for (size_t index = 0; index < data.problem.sequences.size(); ++index) {
    const Sequence& s = data.problem.sequences[index];
    const OracleInput one = testing_suite::one_head(data.problem, data.inputs, index, 0);
    const OracleOutput right = oracle_forward(one);
    const OracleGradients grads =
        oracle_backward(one, right, testing_suite::cotangents_of(data.problem, data.inputs, index, 0).out);
    EXPECT_EQ(rows_of(got.out, s.q_begin, s.q_length), right.out);
    EXPECT_EQ(rows_of(got.grad_q, s.q_begin, s.q_length), grads.q);
    EXPECT_EQ(rows_of(got.grad_k, s.k_begin, s.k_length), grads.k);
    EXPECT_EQ(rows_of(got.grad_v, s.k_begin, s.k_length), grads.v);
  }
}

class Dense : public LevelTest {};

TEST_P(Dense, ReluAddsUpWhatIsPositive) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    for (const int64_t dim : {5, 24, 64, 129, 256}) {
      // At dim 64: nearly all, 84, 50, 16 and 1% of the scores are positive; at 256 93, 69, 50, 31 and 13%.
      for (const int lean : {24, 8, 0, -8, -18}) {
        const float dropout = lean == 8 || lean == -8 ? 0.5F : 0.0F;
        const Data data = make("relu", {.kind = kind, .dim = dim, .lean = lean, .dropout = dropout});
        SCOPED_TRACE("dim " + std::to_string(dim) + " lean " + std::to_string(lean));
        const Results got = run(data);
        expect_exact(data, got);
        ThreadExecutor threads(3);
        const Results again = run(data, threads);
        EXPECT_EQ(all_of(again.out), all_of(got.out));
        EXPECT_EQ(all_of(again.grad_q), all_of(got.grad_q));
        EXPECT_EQ(all_of(again.grad_k), all_of(got.grad_k));
        EXPECT_EQ(all_of(again.grad_v), all_of(got.grad_v));
      }
    }
  }
}

// The pattern `others` on the same numbers: a query's own key counts neither in its scores nor in any gradient.
TEST_P(Dense, OthersLeaveOutTheQuerysOwnKey) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    for (const int64_t dim : {5, 64}) {
      for (const int lean : {24, 0, -18}) {
        SCOPED_TRACE("dim " + std::to_string(dim) + " lean " + std::to_string(lean));
        const Data data = make("others+relu", {.kind = kind, .dim = dim, .lean = lean});
        ASSERT_TRUE(kDenseKernel.refuses(data.problem).empty());
        expect_exact(data, run(data));
      }
    }
  }
}

// With one value that is not a number, the outputs that stay clean are those of the query whose own it is and of the
// causal queries before it.
TEST_P(Dense, AnOwnValueReachesAllButItsQuery) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    Data data = make("others", {.kind = kind});
    constexpr int64_t kQuery = 70, kKey = 260 - 100 + kQuery;  // of the first sequence
    data.inputs.v.set(kKey, 0, 5, std::numeric_limits<double>::quiet_NaN());
    data.inputs.scale = 0.01F;  // scores of a few units at most, so no weight is zero
    const Results got = run(data);
    for (int64_t i = 0; i < 100; ++i) {
      const bool sees = i != kQuery && (kind != AttentionKind::kCausal || i > kQuery);
      EXPECT_EQ(std::isnan(got.out.get(i, 0, 5)), sees) << "query " << i;
    }
  }
}

// A value that is not a number reaches those alone that give it a weight, where most scores are positive or few.
TEST_P(Dense, ReluKeepsRubbishFromThoseThatGiveItNoWeight) {
  for (const int lean : {8, -8}) {
    SCOPED_TRACE(lean);
    Data data = make("relu", {.lean = lean});
    const Results clean = run(data);
    constexpr int64_t kKey = 130;  // of the first sequence
    data.inputs.v.set(kKey, 0, 5, std::numeric_limits<double>::quiet_NaN());
    const Results got = run(data);
    for (int64_t i = 0; i < 100; ++i) {
      double score = 0;
      for (int64_t x = 0; x < 64; ++x) score += data.inputs.q.get(i, 0, x) * data.inputs.k.get(kKey, 0, x);
      EXPECT_EQ(std::isnan(got.out.get(i, 0, 5)), score > 0) << "query " << i;
      EXPECT_EQ(std::isnan(got.grad_q.get(i, 0, 0)), score > 0) << "query " << i;
      if (score > 0) continue;
      EXPECT_EQ(got.grad_q.get(i, 0, 0), clean.grad_q.get(i, 0, 0)) << "query " << i;
    }
    EXPECT_EQ(all_of(got.grad_v), all_of(clean.grad_v));
    EXPECT_EQ(rows_of(got.grad_k, 0, kKey), rows_of(clean.grad_k, 0, kKey));
    EXPECT_EQ(rows_of(got.grad_k, kKey + 1, 690 - kKey - 1), rows_of(clean.grad_k, kKey + 1, 690 - kKey - 1));
  }
}

// Keys some 90 to 130 below the rows' maxima: their weights are zero rather than numbers below float's normal range,
// which take processors several times as long.
TEST_P(Dense, SoftmaxLeavesNoSubnormalNumbers) {
  Data data = make("full", {});
  for (int64_t t = 0; t < 690; t += 5) data.inputs.k.set(t, 0, 0, -40 - static_cast<double>(t % 20));
  for (const Kernel* kernel : {&kDenseKernel, &kRowsKernel}) {
    SCOPED_TRACE(kernel->name);
    const Results got = run(data, *kernel);
    for (const Array* of : {&got.out, &got.grad_q, &got.grad_k, &got.grad_v}) {
      for (const double x : all_of(*of)) EXPECT_NE(std::fpclassify(static_cast<float>(x)), FP_SUBNORMAL) << x;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Dense, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::dense_test
