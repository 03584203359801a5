#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// Long sequences, whose gradients of keys and values are added up from parts, each of the keys that its queries see.
// Over small whole numbers ReLU's sums are exact in any order, so that they equal the oracle's to the bit: those of one
// head, and those of heads that share keys.
namespace fovea::kernels::rows_parts_test {
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
  int64_t heads = 1;
  KeySharing sharing = {};
};

AttentionProblem problem_of(const Case& c) {
  AttentionProblem p;
  p.spec = parse_attention(std::string(c.spec) + "+relu");
  p.kind = c.kind, p.dtype = c.dtype, p.head_dim = kDim, p.needs_backward = true;
  p.num_heads = c.heads, p.keys = c.sharing;
  p.sequences = {{0, c.queries, 0, c.keys}};
  return p;
}

Inputs draw(const Case& c, const AttentionProblem& p) {
  Rng rng(77);
  const auto array = [&](int64_t tokens, int64_t heads) {
    Array out(c.dtype, Layout::kPacked, tokens, heads, kDim);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < kDim; ++i) out.set(t, h, i, static_cast<double>(rng.below(5)) - 2);
      }
    }
    return out;
  };
  Inputs in;
  in.q = array(c.queries, c.heads), in.grad_out = array(c.queries, c.heads);
  in.k = array(c.keys, p.num_key_heads()), in.v = array(c.keys, p.num_key_heads());
  in.alpha.assign(static_cast<size_t>(c.heads), 1);
  return in;
}

// Rounded once, as sums are exact.
void expect_rows(const char* what, DType dtype, const Array& got, int64_t head, const std::vector<double>& right) {
  for (int64_t t = 0; t < got.tokens(); ++t) {
    for (int64_t i = 0; i < kDim; ++i) {
      ASSERT_EQ(got.get(t, head, i), testing_suite::round_to(dtype, right[static_cast<size_t>(t * kDim + i)]))
          << what << " of head " << head << ", " << t << " " << i;
    }
  }
}

void add_to(std::vector<double>& sum, const std::vector<double>& more) {
  sum.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

// The oracle's results for each head; the gradients of keys and values are sums over the heads that share them.
struct Right {
  std::vector<std::vector<double>> out, grad_q, grad_k, grad_v;
  Right(const AttentionProblem& p, const Inputs& in)
      : grad_k(static_cast<size_t>(p.num_key_heads())), grad_v(static_cast<size_t>(p.num_key_heads())) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const OracleInput one = testing_suite::one_head(p, in, 0, h);
      const OracleOutput right = oracle_forward(one);
      OracleGradients grads = oracle_backward(one, right, testing_suite::cotangents_of(p, in, 0, h).out);
      out.push_back(right.out), grad_q.push_back(std::move(grads.q));
      add_to(grad_k[static_cast<size_t>(p.key_head(h))], grads.k);
      add_to(grad_v[static_cast<size_t>(p.key_head(h))], grads.v);
    }
  }
};

// The oracle takes longer than the kernels: once for all levels.
const Right& right_of(const Case& c, const AttentionProblem& p, const Inputs& in) {
  static std::map<const Case*, Right> computed;
  return computed.try_emplace(&c, p, in).first->second;
}

void expect_exact(const Kernel& kernel, const Case& c) {
  const AttentionProblem p = problem_of(c);
  const Inputs in = draw(c, p);
  const Right& right = right_of(c, p, in);
  SerialExecutor serial;
  ThreadExecutor threads(3);
  for (Executor* executor : {static_cast<Executor*>(&serial), static_cast<Executor*>(&threads)}) {
    const Results got = testing_suite::run_kernel(kernel, p, in, Layout::kPacked, *executor);
    for (int64_t h = 0; h < p.num_heads; ++h) {
      expect_rows("out", c.dtype, got.out, h, right.out[static_cast<size_t>(h)]);
      expect_rows("grad_q", c.dtype, got.grad_q, h, right.grad_q[static_cast<size_t>(h)]);
    }
    for (int64_t h = 0; h < p.num_key_heads(); ++h) {
      expect_rows("grad_k", c.dtype, got.grad_k, h, right.grad_k[static_cast<size_t>(h)]);
      expect_rows("grad_v", c.dtype, got.grad_v, h, right.grad_v[static_cast<size_t>(h)]);
    }
  }
}

class RowsParts : public LevelTest {};

// Each case has more than 2^19 pairs, so that it is split into parts.
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
    expect_exact(kRowsKernel, c);
  }
}

// Calls on whole groups of heads, and on heads from within a group: two heads of the first one and three of the next.
const std::vector<Case> kSharing = {
    {.spec = "window(90)", .queries = 400, .keys = 500, .heads = 4, .sharing = {4, 0}},
    {.spec = "window(400)", .queries = 1400, .keys = 1500, .heads = 4, .sharing = {2, 0}},
    {.spec = "window(400)|random(2)", .queries = 1400, .keys = 1400, .heads = 5, .sharing = {3, 1}},
    {.spec = "full", .kind = AttentionKind::kCausal, .queries = 1030, .keys = 1100, .heads = 5, .sharing = {3, 1}},
    {.spec = "full", .queries = 740, .keys = 720, .heads = 8, .sharing = {4, 0}},
    {.spec = "full", .queries = 300, .keys = 310, .heads = 6, .sharing = {6, 0}},
};

TEST_P(RowsParts, AddUpOverHeads) {
  for (const Case& c : kSharing) {
    SCOPED_TRACE(c.spec);
    expect_exact(kRowsKernel, c);
    if (std::string_view(c.spec) == "full") expect_exact(kDenseKernel, c);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, RowsParts, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::rows_parts_test
