#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/rows_naive_test.h"

// Calls of decoding: few queries of a sequence, and keys that lie where a list says.
namespace fovea::kernels::rows_few_test {
namespace {

using namespace rows_naive;

class RowsFew : public LevelTest {};

std::vector<float> forward_alone(Data& data, const int64_t* key_tokens, Executor& executor) {
  std::vector<float> result(data.q.size(), std::nanf(""));
  AttentionForward f;
  f.q = in(data.q, data.problem), f.k = in(data.k, data.problem), f.v = in(data.v, data.problem);
  f.out = out(result, data.problem), f.key_tokens = key_tokens, f.scale = data.scale, f.random = data.random;
  kRowsKernel.forward(data.problem, f, executor);
  return result;
}

// A step of decoding beside sequences of many queries: whole vectors and parts of them, a row that sees no key, bits
// that do not depend on the neighbours.
TEST_P(RowsFew, FewQueries) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal, AttentionKind::kCross}) {
    for (const int64_t dim : {5, 16, 33}) {
      Data data = make({.spec = "full",
                        .kind = kind,
                        .heads = 3,
                        .dim = dim,
                        .lengths = {{1, 17}, {8, 8}, {3, 1}, {9, 20}, {1, 1}, {5, 0}}});
      data.problem.needs_backward = false;
      SerialExecutor serial;
      ThreadExecutor threads(3);
      const std::vector<float> got = forward_alone(data, nullptr, serial);
      Doubles q = wide(data.q), k = wide(data.k), v = wide(data.v), alpha = wide(data.alpha);
      const Doubles want = naive(data, {q, k, v, alpha});
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-6) << i;
      EXPECT_EQ(forward_alone(data, nullptr, threads), got);
      data.problem.sequences.erase(data.problem.sequences.begin() + 1, data.problem.sequences.end());
      const std::vector<float> alone = forward_alone(data, nullptr, serial);
      EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + 3 * dim, got.begin()));
    }
  }
}

// The path of few queries drops nothing, so with dropout they must go the way of many.
TEST_P(RowsFew, FewQueriesAreDroppedToo) {
  Data data = make({.spec = "full", .lengths = {{3, 50}, {1, 17}}, .dropout = 0.5F});
  SerialExecutor serial;
  const std::vector<float> want = compute(kRowsKernel, data, data.q, serial).out;
  data.problem.needs_backward = false;
  const std::vector<float> got = forward_alone(data, nullptr, serial);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << i;
}

// A row of a [tokens, H, D] array.
std::span<float> row(std::vector<float>& x, const Data& data, int64_t token) {
  const auto size = static_cast<size_t>(data.problem.num_heads * data.problem.head_dim);
  return std::span(x).subspan(static_cast<size_t>(token) * size, size);
}

// Keys that sequences share and that lie in no order give the bits of copies that lie in a row.
TEST_P(RowsFew, KeysWhereAListSays) {
  for (const char* spec : {"full", "topk(3)", "entmax(1.5)", "relu", "dilated(5,3)", "random(3)", "window(4)|global(2)",
                           "topk(2,keep=dilated(3,4))"}) {
    for (const int64_t dim : {5, 32}) {
      SCOPED_TRACE(cat(spec, " dim ", dim));
      Data data = make({.spec = spec,
                        .kind = AttentionKind::kCausal,
                        .dim = dim,
                        .lengths = {{1, 7}, {1, 30}, {12, 40}, {3, 9}, {4, 2}, {1, 2100}}});
      data.problem.needs_backward = false;
      Data listed = data;
      listed.problem.keys_listed = true;
      std::ranges::fill(listed.k, std::nanf(""));
      std::ranges::fill(listed.v, std::nanf(""));
      // The array holds each token once, the last first; the sequences' first five keys are the same ones.
      constexpr int64_t kShared = 5;
      std::vector<int64_t> list(static_cast<size_t>(data.tokens_k));
      for (const Sequence& s : data.problem.sequences) {
        for (int64_t j = 0; j < s.k_length; ++j) {
          const int64_t token = (j < kShared ? 0 : s.k_begin) + j, place = data.tokens_k - 1 - token;
          list[static_cast<size_t>(s.k_begin + j)] = place;
          for (const auto of : {&Data::k, &Data::v}) {
            std::ranges::copy(row(data.*of, data, token), row(listed.*of, data, place).begin());
            std::ranges::copy(row(data.*of, data, token), row(data.*of, data, s.k_begin + j).begin());
          }
        }
      }
      SerialExecutor serial;
      ThreadExecutor threads(3);
      const std::vector<float> want = forward_alone(data, nullptr, serial);
      EXPECT_EQ(forward_alone(listed, list.data(), serial), want);
      EXPECT_EQ(forward_alone(listed, list.data(), threads), want);
    }
  }
}

TEST(Rows, AloneTakesKeysFromAList) {
  AttentionProblem problem;
  for (const char* spec : {"full", "topk(4)", "sparsemax", "entmax(1.5)", "relu"}) {
    problem.spec = parse_attention(spec);
    for (const Kernel& kernel : attention_kernels()) {
      problem.keys_listed = false;
      const size_t reasons = kernel.refuses(problem).size();
      problem.keys_listed = true;
      EXPECT_EQ(kernel.refuses(problem).size(), reasons + (kernel.name == kRowsKernel.name ? 0 : 1))
          << kernel.name << ' ' << spec;
    }
  }
  problem.needs_backward = true;
  EXPECT_FALSE(kRowsKernel.refuses(problem).empty());
}

INSTANTIATE_TEST_SUITE_P(Levels, RowsFew, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::rows_few_test
