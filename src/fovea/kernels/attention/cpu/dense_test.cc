#include "fovea/kernels/attention/cpu/dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/dropout.h"

// ReLU's way through blocks of scores, from nearly all positive to nearly none: over small whole numbers every sum is
// exact, so that what is passed over must be what adds nothing, to the bit. And softmax far from its maximum. Other
// mechanisms, shapes and types are the business of kernel_list_test.cc.
namespace fovea::kernels {
namespace {

struct Case {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t dim = 64;
  int lean = 0;  // four times it is added to q . k, whose deviation is 4 sqrt(dim)
  float dropout = 0;
};

struct Data {
  AttentionProblem problem;
  RandomStream random{.seed = 3, .dropout_key = 77, .layer = 1, .first_head = 2};
  int64_t queries = 0, keys = 0;
  std::vector<float> q, k, v, grad_out;
  float scale = 0.5F;
};

Data make(const Case& c) {
  Data data;
  AttentionProblem& p = data.problem;
  p.spec = parse_attention("relu");
  p.kind = c.kind, p.head_dim = c.dim, p.dropout = c.dropout;
  p.needs_backward = true;
  p.sequences = {{0, 100, 0, 260}, {100, 215, 260, 430}};
  data.queries = 315, data.keys = 690;
  Rng rng(static_cast<uint64_t>(c.dim + 31));
  const auto draw = [&](std::vector<float>& to, int64_t tokens, float first) {
    for (int64_t i = 0; i < tokens * c.dim; ++i) {
      const auto value = static_cast<float>(static_cast<int>(rng.below(7)) - 3);
      to.push_back(i % c.dim == 0 ? first : value);
    }
  };
  draw(data.q, data.queries, 4);
  draw(data.k, data.keys, static_cast<float>(c.lean));
  draw(data.v, data.keys, 1);
  draw(data.grad_out, data.queries, 1);
  // Three groups of rows without a positive score among others.
  for (const Sequence& s : p.sequences) {
    for (int64_t i = 24; c.lean > 0 && i < 60; ++i) {
      const auto row = data.q.begin() + (s.q_begin + i) * c.dim;
      std::fill(row, row + c.dim, 0.0F);
      *row = -1;
    }
  }
  return data;
}

struct Results {
  std::vector<float> out, grad_q, grad_k, grad_v;
};

// By definition, over whole numbers and halves below 2^24: exact.
Results naive(const Data& data) {
  const AttentionProblem& p = data.problem;
  const int64_t d = p.head_dim;
  Results r{.out = std::vector<float>(data.q.size()),
            .grad_q = std::vector<float>(data.q.size()),
            .grad_k = std::vector<float>(data.k.size()),
            .grad_v = std::vector<float>(data.k.size())};
  for (const Sequence& s : p.sequences) {
    for (int64_t i = 0; i < s.q_length; ++i) {
      const auto query = static_cast<size_t>((s.q_begin + i) * d);
      const uint32_t row_key = dropout_row_key(data.random.dropout_key, data.random.first_head, s.q_begin + i);
      for (int64_t j = 0; j < s.k_length; ++j) {
        if (p.kind == AttentionKind::kCausal && j > i + s.k_length - s.q_length) break;
        const auto key = static_cast<size_t>((s.k_begin + j) * d);
        float score = 0, grad = 0;
        for (size_t x = 0; x < static_cast<size_t>(d); ++x) {
          score += data.scale * data.q[query + x] * data.k[key + x];
          grad += data.grad_out[query + x] * data.v[key + x];
        }
        if (!(score > 0)) continue;
        const bool keeps = dropout_keeps(row_key, static_cast<uint32_t>(j), dropout_threshold(p.dropout));
        const float kept = keeps ? dropout_scale(p.dropout) : 0;
        for (size_t x = 0; x < static_cast<size_t>(d); ++x) {
          r.out[query + x] += kept * score * data.v[key + x];
          r.grad_v[key + x] += kept * score * data.grad_out[query + x];
          r.grad_q[query + x] += kept * grad * data.scale * data.k[key + x];
          r.grad_k[key + x] += kept * grad * data.scale * data.q[query + x];
        }
      }
    }
  }
  return r;
}

Results compute(const Data& data, Executor& executor, const Kernel& kernel = kDenseKernel) {
  const AttentionProblem& p = data.problem;
  const float unset = std::numeric_limits<float>::quiet_NaN();
  const int64_t d = p.head_dim;
  const auto in = [&](const std::vector<float>& x) { return Rows<const void>{x.data(), d, d}; };
  const auto out = [&](std::vector<float>& x, size_t size) {
    x.assign(size, unset);
    return Rows<void>{x.data(), d, d};
  };
  Results r;
  const SavedPerRow saved = kernel.saved(p);
  std::vector<float> stats(static_cast<size_t>(data.queries * saved.floats + 1));
  AttentionForward f;
  f.q = in(data.q), f.k = in(data.k), f.v = in(data.v);
  f.out = out(r.out, data.q.size());
  f.scale = data.scale, f.random = data.random;
  f.stats = stats.data(), f.saved = saved;
  kernel.forward(p, f, executor);
  AttentionBackward b;
  b.q = f.q, b.k = f.k, b.v = f.v;
  b.out = in(r.out), b.grad_out = in(data.grad_out);
  b.grad_q = out(r.grad_q, data.q.size()), b.grad_k = out(r.grad_k, data.k.size());
  b.grad_v = out(r.grad_v, data.k.size());
  b.scale = data.scale, b.random = data.random;
  b.stats = stats.data(), b.saved = saved;
  kernel.backward(p, b, executor);
  return r;
}

class Dense : public AtLevel {};

TEST_P(Dense, ReluAddsUpWhatIsPositive) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    for (const int64_t dim : {5, 24, 64, 129, 256}) {
      // At dim 64: nearly all, 84, 50, 16 and 1% of the scores are positive; at 256 93, 69, 50, 31 and 13%.
      for (const int lean : {24, 8, 0, -8, -18}) {
        const Data data = make({.kind = kind, .dim = dim, .lean = lean, .dropout = lean % 16 == 8 ? 0.5F : 0.0F});
        SCOPED_TRACE("dim " + std::to_string(dim) + " lean " + std::to_string(lean));
        const Results want = naive(data);
        SerialExecutor serial;
        ThreadExecutor threads(3);
        for (Executor* executor : {static_cast<Executor*>(&serial), static_cast<Executor*>(&threads)}) {
          const Results got = compute(data, *executor);
          EXPECT_EQ(got.out, want.out);
          EXPECT_EQ(got.grad_q, want.grad_q);
          EXPECT_EQ(got.grad_k, want.grad_k);
          EXPECT_EQ(got.grad_v, want.grad_v);
        }
      }
    }
  }
}

// A value that is not a number reaches those alone that give it a weight, where most scores are positive or few.
TEST_P(Dense, ReluKeepsRubbishFromThoseThatGiveItNoWeight) {
  for (const int lean : {8, -8}) {
    SCOPED_TRACE(lean);
    Data data = make({.lean = lean});
    const Results clean = naive(data);
    constexpr size_t kKey = 130;  // of the first sequence
    const size_t d = 64;
    data.v[kKey * d + 5] = std::numeric_limits<float>::quiet_NaN();
    SerialExecutor serial;
    const Results got = compute(data, serial);
    for (size_t i = 0; i < 100; ++i) {
      float score = 0;
      for (size_t x = 0; x < d; ++x) score += data.q[i * d + x] * data.k[kKey * d + x];
      EXPECT_EQ(std::isnan(got.out[i * d + 5]), score > 0) << "query " << i;
      EXPECT_EQ(std::isnan(got.grad_q[i * d]), score > 0) << "query " << i;
      if (score > 0) continue;
      EXPECT_EQ(got.grad_q[i * d], clean.grad_q[i * d]) << "query " << i;
    }
    EXPECT_EQ(got.grad_v, clean.grad_v);
    for (size_t i = 0; i < clean.grad_k.size(); ++i) {
      if (i / d == kKey) continue;
      EXPECT_EQ(got.grad_k[i], clean.grad_k[i]) << "key " << i / d;
    }
  }
}

// Keys some 90 to 130 below the rows' maxima: their weights are zero rather than numbers below float's normal range,
// which take processors several times as long.
TEST_P(Dense, SoftmaxLeavesNoSubnormalNumbers) {
  Data data = make({});
  data.problem.spec = parse_attention("full");
  for (int64_t t = 0; t < data.keys; t += 5) {
    data.k[static_cast<size_t>(t * data.problem.head_dim)] = -40 - static_cast<float>(t % 20);
  }
  SerialExecutor serial;
  for (const Kernel* kernel : {&kDenseKernel, &kRowsKernel}) {
    SCOPED_TRACE(kernel->name);
    const Results got = compute(data, serial, *kernel);
    for (const std::vector<float>* of : {&got.out, &got.grad_q, &got.grad_k, &got.grad_v}) {
      EXPECT_EQ(std::count_if(of->begin(), of->end(), [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; }), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Dense, testing::ValuesIn(levels_of_this_machine()), level_title);

}  // namespace
}  // namespace fovea::kernels
