#include "fovea/kernels/attention/testing/kernel_test_suite.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "fovea/kernels/attention/testing/kernel_run.h"

// The suite finds what is wrong: a kernel made of the oracle passes it, and fails it with any of these faults.
namespace fovea::kernels::testing_suite::kernel_test_suite_test {
namespace {

enum class Fault : uint8_t {
  kNone,
  kSmallError,     // one part in 10,000 in the output
  kNoDropout,      // forgotten
  kWrongGradient,  // of k, in one element
  kOneOfGroup,     // gradients of k and v are those of one of the heads that share them
  kOtherSequence,  // the output depends on the number of sequences
  kThreads,        // the output depends on the number of threads
  kWritesOutside,  // behind a row
  kDropsTies,      // topk keeps exactly k
  kHidesNan,
  kZeroTimesNan,  // all values of a sequence go into every sum
  kNoTerms,       // forgotten
  kWrongTerm,     // the gradients of terms, in one element
  kIgnoresLists,  // of pairs that come with the call
};
Fault fault = Fault::kNone;

template <class T>
auto* row(const Rows<T>& rows, int64_t token, int64_t head) {
  using Float = std::conditional_t<std::is_const_v<T>, const float, float>;
  return static_cast<Float*>(rows.data) + token * rows.token_stride + head * rows.head_stride;
}

struct Extent {
  int64_t tokens, heads, width;
};
template <class T>
Array copied(const Rows<T>& from, const Extent& extent) {
  Array out(DType::kFloat32, Layout::kPacked, extent.tokens, extent.heads, extent.width);
  for (int64_t t = 0; t < extent.tokens; ++t)
    for (int64_t h = 0; h < extent.heads; ++h)
      for (int64_t i = 0; i < extent.width; ++i) out.set(t, h, i, row(from, t, h)[i]);
  return out;
}

int64_t queries_of(const AttentionProblem& p) { return p.sequences.back().q_begin + p.sequences.back().q_length; }

Inputs inputs_of(const AttentionProblem& p, const Rows<const void>& q, const Rows<const void>& k,
                 const Rows<const void>& v) {
  const int64_t keys = p.sequences.back().k_begin + p.sequences.back().k_length;
  const auto of_keys = [&](const Rows<const void>& from) {
    return copied(from, {keys, p.num_key_heads(), p.head_dim});
  };
  return {copied(q, {queries_of(p), p.num_heads, p.head_dim}), of_keys(k), of_keys(v), {}, {}, 1, {}};
}

void copy_terms(const AttentionProblem& p, const OffsetTerms& terms, Inputs& in) {
  const OffsetRanges& has = p.offsets;
  const int64_t queries = queries_of(p), heads = p.num_heads;
  in.by_head.assign(terms.by_head, terms.by_head + heads * has.by_head.count);
  if (has.by_query.count > 0) in.by_query = copied(terms.by_query, {queries, heads, has.by_query.count});
  if (has.product.count == 0) return;
  in.queries = copied(terms.queries, {queries, heads, p.head_dim});
  in.rows = copied(terms.rows, {has.product.count, heads, p.head_dim});
}

void copy_lists(const AttentionProblem& p, const GivenLists& lists, Inputs& in) {
  if (!p.given.any()) return;
  const int64_t heads = p.list_heads();
  in.given.assign(lists.data, lists.data + queries_of(p) * heads * p.given.count);
  if (fault == Fault::kIgnoresLists) std::iota(in.given.begin(), in.given.end(), 0);
}

// Adds rows that the heads of a group share, which the first of them writes.
void add(const Rows<void>& to, int64_t token, int64_t head, const std::vector<double>& rows, int64_t index,
         int64_t width, bool first) {
  for (int64_t i = 0; i < width; ++i) {
    const auto x = static_cast<float>(rows[static_cast<size_t>(index * width + i)]);
    row(to, token, head)[i] = first ? x : row(to, token, head)[i] + x;
  }
}

template <class T>
void write(const Rows<T>& to, int64_t token, int64_t head, const std::vector<double>& rows, int64_t index,
           int64_t width) {
  for (int64_t i = 0; i < width; ++i)
    row(to, token, head)[i] = static_cast<float>(rows[static_cast<size_t>(index * width + i)]);
}

OracleInput head_of(const AttentionProblem& p, Inputs& in, const float* alpha, size_t s, int64_t h) {
  in.alpha.assign(alpha, alpha + p.num_heads);
  AttentionProblem faulty = p;
  if (fault == Fault::kNoDropout) faulty.dropout = 0;
  OracleInput head = one_head(faulty, in, s, h);
  if (fault == Fault::kNoTerms) {
    for (std::vector<double>* of : {&head.terms.by_head.values, &head.terms.by_query.values, &head.terms.rows.values})
      std::fill(of->begin(), of->end(), 0);
  }
  if (fault == Fault::kDropsTies) {
    // Later keys score a little less, so that no two tie.
    for (int64_t j = 0; j < head.num_keys; ++j)
      for (int64_t i = 0; i < head.head_dim; ++i)
        head.k[static_cast<size_t>(j * head.head_dim + i)] *= 1 - 1e-9 * static_cast<double>(j);
  }
  return head;
}

std::vector<std::string> refuses(const AttentionProblem& p) {
  if (p.dtype != DType::kFloat32) return {"float32 alone"};
  return {};
}
SavedPerRow saved(const AttentionProblem&) { return {}; }

void forward(const AttentionProblem& p, const AttentionForward& f, Executor& executor) {
  Inputs in = inputs_of(p, f.q, f.k, f.v);
  copy_terms(p, f.terms, in);
  copy_lists(p, f.given, in);
  in.scale = f.scale;
  in.random = f.random;
  double factor = fault == Fault::kSmallError ? 1.0001 : 1;
  if (fault == Fault::kThreads) factor += 1e-6 * executor.num_threads();
  if (fault == Fault::kOtherSequence) factor += 1e-6 * static_cast<double>(p.sequences.size());
  for (size_t s = 0; s < p.sequences.size(); ++s) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const Sequence& sequence = p.sequences[s];
      const OracleInput head = head_of(p, in, f.alpha, s, h);
      const OracleOutput output = oracle_forward(head);
      std::vector<double> out = output.out;
      double zero = 0;
      for (const double v : head.v) zero += fault == Fault::kZeroTimesNan ? 0 * v : 0;
      for (double& x : out) x = fault == Fault::kHidesNan && x != x ? 0 : x * factor + zero;
      for (int64_t i = 0; i < sequence.q_length; ++i) {
        write(f.out, sequence.q_begin + i, h, out, i, p.head_dim);
        write(f.terms.sums, sequence.q_begin + i, h, output.sums, i, p.offsets.sums.count);
        if (fault == Fault::kWritesOutside && f.out.token_stride > p.num_heads * p.head_dim)
          row(f.out, sequence.q_begin + i, h)[p.head_dim] = 0;
      }
    }
  }
}

void backward(const AttentionProblem& p, const AttentionBackward& b, Executor&) {
  Inputs in = inputs_of(p, b.q, b.k, b.v);
  in.grad_out = inputs_of(p, b.grad_out, b.k, b.v).q;
  copy_terms(p, b.terms, in);
  copy_lists(p, b.given, in);
  const OffsetRanges& has = p.offsets;
  const OffsetGradients& to = b.grad_terms;
  if (has.sums.count > 0) in.grad_sums = copied(to.sums, {queries_of(p), p.num_heads, has.sums.count});
  std::fill_n(to.by_head, p.num_heads * has.by_head.count, 0.0F);
  std::fill_n(to.rows, p.num_heads * has.product.count * p.head_dim, 0.0F);
  in.scale = b.scale;
  in.random = b.random;
  std::fill(b.grad_alpha, b.grad_alpha + p.num_heads, 0.0F);
  std::vector<double> alphas(static_cast<size_t>(p.num_heads));
  for (size_t s = 0; s < p.sequences.size(); ++s) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const Sequence& sequence = p.sequences[s];
      const OracleInput head = head_of(p, in, b.alpha, s, h);
      const HeadCotangents given = cotangents_of(p, in, s, h);
      OracleGradients g = oracle_backward(head, oracle_forward(head), given.out, given.sums);
      if (fault == Fault::kWrongTerm) {
        for (std::vector<double>* of : {&g.by_head, &g.by_query, &g.queries, &g.rows}) {
          if (!of->empty()) of->back() += 0.01;
        }
      }
      if (fault == Fault::kWrongGradient && !g.k.empty()) g.k.back() += 0.01;
      for (int64_t i = 0; i < sequence.q_length; ++i) {
        write(b.grad_q, sequence.q_begin + i, h, g.q, i, p.head_dim);
        write(to.by_query, sequence.q_begin + i, h, g.by_query, i, has.by_query.count);
        if (has.product.count > 0) write(to.queries, sequence.q_begin + i, h, g.queries, i, p.head_dim);
      }
      for (int64_t i = 0; i < has.by_head.count; ++i)
        to.by_head[h * has.by_head.count + i] += static_cast<float>(g.by_head[static_cast<size_t>(i)]);
      for (int64_t o = 0; o < has.product.count; ++o)
        for (int64_t i = 0; i < p.head_dim; ++i)
          to.rows[(o * p.num_heads + h) * p.head_dim + i] +=
              static_cast<float>(g.rows[static_cast<size_t>(o * p.head_dim + i)]);
      for (int64_t j = 0; j < sequence.k_length; ++j) {
        const int64_t key_head = p.key_head(h);
        const bool first = fault == Fault::kOneOfGroup || h == p.keys.first_head(key_head);
        add(b.grad_k, sequence.k_begin + j, key_head, g.k, j, p.head_dim, first);
        add(b.grad_v, sequence.k_begin + j, key_head, g.v, j, p.head_dim, first);
      }
      alphas[static_cast<size_t>(h)] += g.alpha;
    }
  }
  for (size_t h = 0; h < alphas.size(); ++h) b.grad_alpha[h] = static_cast<float>(alphas[h]);
}

const Kernel kMadeOfTheOracle = {"oracle", "the oracle as a kernel", refuses, saved, forward, backward};

// Failures that a part of the suite reports under a fault.
int failures(Fault injected, int (*part)(const Suite&)) {
  fault = injected;
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    Suite suite{&kMadeOfTheOracle, DType::kFloat32};
    suite.every = injected == Fault::kNone ? 17 : 53;  // a small part shows each fault
    EXPECT_GT(part(suite), 0);
  }
  fault = Fault::kNone;
  int failed = 0;
  for (int i = 0; i < results.size(); ++i) failed += results.GetTestPartResult(i).failed();
  return failed;
}

TEST(KernelTestSuite, TheOraclePasses) {
  for (const auto part : {check_against_oracle, check_same_bits, check_ties, check_huge_and_tiny, check_not_finite})
    EXPECT_EQ(failures(Fault::kNone, part), 0);
}

TEST(KernelTestSuite, FaultsAreFound) {
  EXPECT_GT(failures(Fault::kSmallError, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kNoDropout, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kWrongGradient, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kOneOfGroup, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kWritesOutside, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kNoTerms, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kWrongTerm, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kIgnoresLists, check_against_oracle), 0);
  EXPECT_GT(failures(Fault::kOtherSequence, check_same_bits), 0);
  EXPECT_GT(failures(Fault::kThreads, check_same_bits), 0);
  EXPECT_GT(failures(Fault::kDropsTies, check_ties), 0);
  EXPECT_GT(failures(Fault::kHidesNan, check_not_finite), 0);
  EXPECT_GT(failures(Fault::kZeroTimesNan, check_not_finite), 0);
}

}  // namespace
}  // namespace fovea::kernels::testing_suite::kernel_test_suite_test
