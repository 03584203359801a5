#include "fovea/kernels/attention/cpu/long_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// Steps over more than kFewKeys keys, beside sequences that are none, against the oracle in double.
namespace fovea::kernels::long_steps_test {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;

struct Case {
  DType dtype = DType::kFloat32;
  int64_t heads = 1, share = 1, dim = 16;
};

AttentionProblem problem_of(const Case& c) {
  AttentionProblem p;
  p.spec = parse_attention("full");
  p.kind = AttentionKind::kCausal, p.dtype = c.dtype, p.head_dim = c.dim, p.num_heads = c.heads, p.keys = {c.share, 0};
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{
           {1, kFewKeys + 1}, {2, kFewKeys + 70}, {1, 20}, {1, 2 * kFewKeys + 37}}) {
    const Sequence before = p.sequences.empty() ? Sequence{} : p.sequences.back();
    p.sequences.push_back({before.q_begin + before.q_length, queries, before.k_begin + before.k_length, keys});
  }
  return p;
}

Array drawn(const Case& c, int64_t tokens, int64_t heads, Rng& rng) {
  Array out(c.dtype, Layout::kPacked, tokens, heads, c.dim);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < c.dim; ++i) out.set(t, h, i, rng.normal());
    }
  }
  return out;
}

Inputs draw(const Case& c, const AttentionProblem& p) {
  Rng rng(5);
  const Sequence& last = p.sequences.back();
  Inputs in;
  in.q = drawn(c, last.q_begin + last.q_length, c.heads, rng);
  in.k = drawn(c, last.k_begin + last.k_length, p.num_key_heads(), rng);
  in.v = drawn(c, last.k_begin + last.k_length, p.num_key_heads(), rng);
  in.alpha.assign(static_cast<size_t>(c.heads), 1);
  in.scale = 0.3F;
  return in;
}

Array run(const AttentionProblem& p, const Inputs& in, Executor& executor) {
  return testing_suite::run_kernel(kRowsKernel, p, in, Layout::kPacked, executor).out;
}

void expect_same_bits(const Array& got, const Array& want, int64_t tokens, const AttentionProblem& p) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      for (int64_t i = 0; i < p.head_dim; ++i) ASSERT_EQ(got.get(t, h, i), want.get(t, h, i));
    }
  }
}

// The oracle takes longer than the kernels: once for all levels. By case, sequence and head.
const std::vector<double>& right_of(const Case& c, const AttentionProblem& p, const Inputs& in, size_t s, int64_t h) {
  static std::map<std::tuple<const Case*, size_t, int64_t>, std::vector<double>> computed;
  std::vector<double>& right = computed[{&c, s, h}];
  if (right.empty()) right = oracle_forward(testing_suite::one_head(p, in, s, h)).out;
  return right;
}

void expect_oracle(const Case& c, const AttentionProblem& p, const Inputs& in, const Array& got) {
  for (size_t s = 0; s < p.sequences.size(); ++s) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const std::vector<double>& right = right_of(c, p, in, s, h);
      for (int64_t i = 0; i < p.sequences[s].q_length * c.dim; ++i) {
        const double want = right[static_cast<size_t>(i)];
        // Means of thousands of values whose sizes are about 1, by weights with an error of about dim / 4 roundings of
        // scores below 40; then a rounding to the type.
        const double rounding = c.dtype == DType::kBFloat16 ? std::abs(want) / 256 : 0;
        ASSERT_NEAR(got.get(p.sequences[s].q_begin + i / c.dim, h, i % c.dim), want, 4e-5 + rounding)
            << "sequence " << s << " head " << h << " element " << i;
      }
    }
  }
}

class LongSteps : public LevelTest {};

const std::vector<Case> kCases = {{.heads = 2, .dim = 64},
                                  {.heads = 4, .share = 2, .dim = 37},
                                  {.dim = 5},
                                  {.dtype = DType::kBFloat16, .heads = 2, .dim = 32},
                                  {.dtype = DType::kBFloat16, .heads = 3, .share = 3, .dim = 19},
                                  {.dim = 256}};

TEST_P(LongSteps, AreSoftmaxAttention) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(cat("dim ", c.dim, " heads ", c.heads));
    const AttentionProblem p = problem_of(c);
    const Inputs in = draw(c, p);
    SerialExecutor serial;
    ThreadExecutor threads(3);
    const Array got = run(p, in, serial);
    expect_oracle(c, p, in, got);
    expect_same_bits(run(p, in, threads), got, p.sequences.back().q_begin + 1, p);
    AttentionProblem alone = p;
    alone.sequences.resize(1);
    expect_same_bits(run(alone, in, serial), got, 1, p);
  }
}

// A key that is far below the greatest has the weight zero in floats, and its value counts nothing, whatever it is;
// where its weight is more than that, the value counts.
TEST_P(LongSteps, PassOnWhatIsNotFiniteByItsWeight) {
  constexpr int64_t kHidden = 700;
  for (const double score : {-1e6, 0.0}) {
    for (const double rubbish : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      const Case c{.heads = 2, .dim = 16};
      const AttentionProblem p = problem_of(c);
      Inputs in = draw(c, p);
      SerialExecutor serial;
      // The hidden key is the only one of its part that matters there, so that its weight is 1 within the part.
      for (int64_t key = 512; key < 1024; ++key) {
        for (int64_t i = 0; i < c.dim; ++i) in.k.set(key, 1, i, i == 0 ? score / 0.3 : 0);
      }
      for (int64_t i = 0; i < c.dim; ++i) in.q.set(0, 1, i, i == 0 ? 1 : in.q.get(0, 1, i));
      const Array want = run(p, in, serial);
      in.v.set(kHidden, 1, 3, rubbish);
      const Array got = run(p, in, serial);
      if (score < 0) {
        // The row is computed by another path then, whose sums have another order.
        for (int64_t h = 0; h < c.heads; ++h) {
          for (int64_t i = 0; i < c.dim; ++i) ASSERT_NEAR(got.get(0, h, i), want.get(0, h, i), 1e-5);
        }
      } else {
        EXPECT_FALSE(std::isfinite(got.get(0, 1, 3)));
        EXPECT_TRUE(std::isfinite(got.get(0, 1, 4)));
        EXPECT_TRUE(std::isfinite(got.get(0, 0, 3)));
      }
      EXPECT_TRUE(std::isfinite(got.get(p.sequences.back().q_begin, 1, 3)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LongSteps, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::long_steps_test
