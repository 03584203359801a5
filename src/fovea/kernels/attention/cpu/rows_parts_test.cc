#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// Long sequences, whose gradients of keys and values are added up from parts, each of the keys that its queries see.
// Over small whole numbers ReLU's sums are exact in any order, so that they equal the oracle's to the bit.
namespace fovea::kernels {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

constexpr int64_t kDim = 4;

struct Case {
  const char* spec = "";
  AttentionKind kind = AttentionKind::kSelf;
  int64_t queries = 0, keys = 0;
  DType dtype = DType::kFloat32;
};

Inputs draw(const Case& c) {
  Rng rng(77);
  const auto array = [&](int64_t tokens) {
    Array out(c.dtype, Layout::kPacked, tokens, 1, kDim);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < kDim; ++i) out.set(t, 0, i, static_cast<double>(rng.below(5)) - 2);
    }
    return out;
  };
  Inputs in;
  in.q = array(c.queries), in.k = array(c.keys), in.v = array(c.keys), in.grad_out = array(c.queries);
  in.alpha = {1};
  return in;
}

// Rounded once, as sums are exact.
void expect_rows(const char* what, DType dtype, const Array& got, const std::vector<double>& right) {
  for (int64_t t = 0; t < got.tokens(); ++t) {
    for (int64_t i = 0; i < kDim; ++i) {
      ASSERT_EQ(got.get(t, 0, i), testing_suite::round_to(dtype, right[static_cast<size_t>(t * kDim + i)]))
          << what << " " << t << " " << i;
    }
  }
}

class RowsParts : public AtLevel {};

// Of more than 2^19 pairs each.
const std::vector<Case> kCases = {
    {.spec = "full", .queries = 740, .keys = 720},
    {.spec = "full", .kind = AttentionKind::kCausal, .queries = 1030, .keys = 1100},
    {.spec = "window(400)", .queries = 1500, .keys = 1800},  // of which the first keys are in no part
    {.spec = "dilated(400,3)", .queries = 1700, .keys = 1700},
    {.spec = "window(400)|random(2)", .queries = 1500, .keys = 1490},
    {.spec = "strided(2)", .kind = AttentionKind::kCausal, .queries = 1500, .keys = 1500},
    {.spec = "window(400)|global(5)", .queries = 1500, .keys = 1500},
    {.spec = "window(400)", .queries = 1500, .keys = 1800, .dtype = DType::kBFloat16},
    {.spec = "window(400)+topk(7)", .queries = 1500, .keys = 1800, .dtype = DType::kBFloat16},
};

TEST_P(RowsParts, AddUp) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.spec);
    AttentionProblem p;
    p.spec = parse_attention(std::string(c.spec) + "+relu");
    p.kind = c.kind, p.dtype = c.dtype, p.head_dim = kDim, p.needs_backward = true;
    p.sequences = {{0, c.queries, 0, c.keys}};
    const Inputs in = draw(c);
    const OracleInput one = testing_suite::one_head(p, in, 0, 0);
    const OracleOutput right = oracle_forward(one);
    const OracleGradients grads = oracle_backward(one, right, testing_suite::cotangents_of(p, in, 0, 0).out);
    SerialExecutor serial;
    ThreadExecutor threads(3);
    for (Executor* executor : {static_cast<Executor*>(&serial), static_cast<Executor*>(&threads)}) {
      const Results got = testing_suite::run_kernel(kRowsKernel, p, in, Layout::kPacked, *executor);
      expect_rows("out", c.dtype, got.out, right.out);
      expect_rows("grad_q", c.dtype, got.grad_q, grads.q);
      expect_rows("grad_k", c.dtype, got.grad_k, grads.k);
      expect_rows("grad_v", c.dtype, got.grad_v, grads.v);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, RowsParts, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels
