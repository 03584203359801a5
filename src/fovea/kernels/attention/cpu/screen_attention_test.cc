#include "fovea/kernels/attention/cpu/screen_attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/testing/cases.h"

// Tests the lists that screening leaves: groups of pieces, room, weights.
namespace fovea::kernels::screen_attention_test {
namespace {

using testing_suite::Array;
using testing_suite::Case;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

constexpr int64_t kDim = 3;

Case case_of(const char* spec, int64_t sequences, int64_t length) {
  Case c;
  AttentionProblem& p = c.problem;
  p.spec = parse_attention(spec);
  p.num_heads = 1, p.head_dim = kDim, p.needs_backward = true;
  for (int64_t s = 0; s < sequences; ++s) p.sequences.push_back({s * length, length, s * length, length});
  return c;
}

void set_row(Array& array, int64_t token, double value) {
  for (int64_t i = 0; i < kDim; ++i) array.set(token, 0, i, value);
}

class ScreenAttention : public LevelTest {
 protected:
  Results run(const AttentionProblem& problem, const Inputs& inputs) {
    return testing_suite::run_kernel(kTopkKernel, problem, inputs, Layout::kPacked, serial_);
  }
  SerialExecutor serial_;
};

void expect_same_bits(const Array& got, const Array& right, const Sequence& of) {
  for (int64_t t = of.q_begin; t < of.q_begin + of.q_length; ++t)
    for (int64_t i = 0; i < kDim; ++i) ASSERT_EQ(got.bits(t, 0, i), right.bits(t, 0, i)) << t;
}

// More tokens than one group of pieces holds, with ties that find no room in the first group: the lists of one group
// must not reach the next.
TEST_P(ScreenAttention, GroupsOfPiecesAreApart) {
  constexpr int64_t kLength = 300, kSequences = 130, kTied = 100;
  const Case c = case_of("topk(2)", kSequences, kLength);
  Inputs in = draw_inputs(c, {}, 3);
  for (int64_t t = 0; t < kTied * kLength; ++t) set_row(in.k, t, 1);
  ASSERT_GT(piece_groups(c.problem).size(), 1U);
  const Results all = run(c.problem, in);
  EXPECT_TRUE(all.saved_intact);
  for (const size_t s : {0, 109, 110, 115, 129}) {
    SCOPED_TRACE(s);
    AttentionProblem alone = c.problem;
    alone.sequences = {c.problem.sequences[s]};
    const Results one = run(alone, in);
    expect_same_bits(all.out, one.out, alone.sequences[0]);
    expect_same_bits(all.grad_q, one.grad_q, alone.sequences[0]);
    expect_same_bits(all.grad_k, one.grad_k, alone.sequences[0]);
    expect_same_bits(all.grad_v, one.grad_v, alone.sequences[0]);
  }
}

// Lists of 1.7 times a row's share of the room: each block of queries may take that much, but not all blocks together.
TEST_P(ScreenAttention, ListsBeyondTheRoomOfASequenceAreMadeAgain) {
  constexpr int64_t kLength = 320, kSequences = 3;
  const Case c = case_of("topk(2)", kSequences, kLength);
  Inputs in = draw_inputs(c, {}, 3);
  for (int64_t t = 0; t < kSequences * kLength; ++t) {
    set_row(in.q, t, 0), set_row(in.k, t, 0);
    in.q.set(t, 0, 0, 1), in.k.set(t, 0, 0, t % 32 == 5 ? 2 : -1);  // ten keys are the greatest
  }
  const Results got = run(c.problem, in);
  EXPECT_TRUE(got.saved_intact);
  for (size_t s = 0; s < kSequences; ++s) {
    const OracleInput one = one_head(c.problem, in, s, 0);
    const OracleOutput right = oracle_forward(one);
    const OracleGradients grads = oracle_backward(one, right, cotangents_of(c.problem, in, s, 0).out);
    for (int64_t i = 0; i < kLength * kDim; ++i) {
      const int64_t token = static_cast<int64_t>(s) * kLength + i / kDim;
      // A sum of 320 normal numbers over ten: some 10 at most, and 320 roundings.
      ASSERT_NEAR(got.grad_v.get(token, 0, i % kDim), grads.v[static_cast<size_t>(i)], 320 * 0x1p-24 * 10) << s;
    }
  }
}

// GELU of 0 is 0: the key is selected but has no weight, so its value may be anything.
TEST_P(ScreenAttention, WeightsOfZeroHideWhatIsNotFinite) {
  Case c = case_of("topk(8)+gelu", 1, 300);
  c.problem.needs_backward = false;
  Inputs in = draw_inputs(c, {}, 3);
  set_row(in.q, 7, 0);
  in.v.set(5, 0, 1, std::numeric_limits<double>::infinity());
  EXPECT_EQ(run(c.problem, in).out.get(7, 0, 1), 0);
}

// The mean of 1 and the next number of bfloat16 lies half way between them.
TEST_P(ScreenAttention, HalvesAreRoundedToTheEvenNumber) {
  Case c = case_of("topk(1)", 1, 300);
  c.problem.dtype = DType::kBFloat16;
  c.problem.needs_backward = false;
  Inputs in = draw_inputs(c, {}, 3);
  for (const bool even_first : {true, false}) {
    const double even = even_first ? 1 : 1 + 0x1p-6, odd = 1 + 0x1p-7;
    for (int64_t t = 0; t < 300; ++t) {
      set_row(in.q, t, 1), set_row(in.k, t, t < 2 ? 2 : -1), set_row(in.v, t, t == 0 ? even : odd);
    }
    EXPECT_EQ(run(c.problem, in).out.get(0, 0, 0), even);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ScreenAttention, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::screen_attention_test
