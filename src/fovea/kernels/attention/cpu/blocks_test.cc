#include "fovea/kernels/attention/cpu/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// Sequences of several tasks and parts, beside cpu-rows, which shares no product with it. Shorter ones, types and edge
// cases are the business of kernel_list_test.cc.
namespace fovea::kernels::blocks_test {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

struct Case {
  const char* spec = "full";
  AttentionKind kind = AttentionKind::kCausal;
  int64_t dim = 64, heads = 2, share = 1;
  GivenPairs given = {64, 7, ListHeads::kOfQueries};
  std::vector<Sequence> sequences = {{0, 2300, 0, 2300}};
  float dropout = 0;
  OffsetRanges offsets = {};
};

struct Data {
  AttentionProblem problem;
  Inputs inputs;
};

Data make(const Case& c) {
  Data data;
  AttentionProblem& p = data.problem;
  p.spec = parse_attention(c.spec), p.kind = c.kind, p.head_dim = c.dim, p.dropout = c.dropout;
  p.num_heads = c.heads, p.keys.share = c.share, p.given = c.given, p.sequences = c.sequences;
  p.needs_backward = true, p.offsets = c.offsets;
  const Sequence& last = p.sequences.back();
  const int64_t queries = last.q_begin + last.q_length, keys = last.k_begin + last.k_length;
  Rng rng(static_cast<uint64_t>(c.dim));
  const auto draw = [&](int64_t tokens, int64_t heads, int64_t width) {
    Array out(DType::kFloat32, Layout::kPacked, tokens, heads, width);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < width; ++i) out.set(t, h, i, static_cast<double>(rng.below(2001)) / 1000 - 1);
    return out;
  };
  Inputs& in = data.inputs;
  in.q = draw(queries, c.heads, c.dim), in.grad_out = draw(queries, c.heads, c.dim);
  in.k = draw(keys, p.num_key_heads(), c.dim), in.v = draw(keys, p.num_key_heads(), c.dim);
  in.alpha.assign(static_cast<size_t>(c.heads), 0.5F);
  in.scale = 1 / std::sqrt(static_cast<float>(c.dim));
  in.random.dropout_key = 9;
  for (int64_t i = 0; i < c.heads * p.offsets.by_head.count; ++i)
    in.by_head.push_back(static_cast<float>(rng.below(2001)) / 1000 - 1);
  if (p.offsets.by_query.count > 0) in.by_query = draw(queries, c.heads, p.offsets.by_query.count);
  // Each query's own block and some of those before it.
  const int64_t count = c.given.count, lists = p.list_heads();
  in.given.assign(static_cast<size_t>(queries * lists * count + 16), -1);
  for (const Sequence& s : p.sequences) {
    for (int64_t i = 0; i < s.q_length; ++i) {
      const int64_t units = (row_of(p, s, i).limit() + c.given.block - 1) / c.given.block;
      for (int64_t h = 0; h < lists; ++h) {
        int32_t* list = in.given.data() + ((s.q_begin + i) * lists + h) * count;
        int64_t at = 0;
        for (int64_t unit = 0; unit < units && at < count; ++unit) {
          const bool has_room = units - unit <= count - at;
          if (has_room || rng.below(static_cast<uint64_t>(units)) < static_cast<uint64_t>(count))
            list[at++] = static_cast<int32_t>(unit);
        }
      }
    }
  }
  return data;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0, all = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]), all += b[i] * b[i];
  return std::sqrt(sum / all);
}
std::vector<double> values_of(const Array& x) {
  std::vector<double> out;
  for (int64_t t = 0; t < x.tokens(); ++t)
    for (int64_t h = 0; h < x.heads(); ++h)
      for (int64_t i = 0; i < x.width(); ++i) out.push_back(x.get(t, h, i));
  return out;
}

void compare(const Case& c) {
  const Data data = make(c);
  ThreadExecutor executor(2);
  const Results got = testing_suite::run_kernel(kBlocksKernel, data.problem, data.inputs, Layout::kPacked, executor);
  const Results want = testing_suite::run_kernel(kRowsKernel, data.problem, data.inputs, Layout::kPacked, executor);
  EXPECT_LT(difference(values_of(got.out), values_of(want.out)), 2e-6);
  EXPECT_LT(difference(values_of(got.grad_q), values_of(want.grad_q)), 4e-6);
  EXPECT_LT(difference(values_of(got.grad_k), values_of(want.grad_k)), 4e-6);
  EXPECT_LT(difference(values_of(got.grad_v), values_of(want.grad_v)), 4e-6);
  EXPECT_LT(difference(values_of(got.grad_by_query), values_of(want.grad_by_query)), 4e-6);
  const auto doubles = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  EXPECT_LT(difference(doubles(got.grad_by_head), doubles(want.grad_by_head)), 4e-6);
  for (size_t h = 0; h < got.grad_alpha.size(); ++h) EXPECT_NEAR(got.grad_alpha[h], want.grad_alpha[h], 1e-4);
}

TEST(Blocks, LongSequencesAgreeWithRows) {
  compare({});
  compare({.kind = AttentionKind::kSelf, .heads = 1, .given = {100, 9, ListHeads::kOfQueries}});
  compare({.spec = "sink", .heads = 3, .share = 3, .given = {16, 30, ListHeads::kOfQueries}, .dropout = 0.2F});
  compare(
      {.dim = 200, .heads = 4, .share = 2, .given = {130, 3, ListHeads::kOfKeys}, .sequences = {{0, 900, 0, 1400}}});
  compare({.dim = 24, .given = {300, 2, ListHeads::kShared}, .sequences = {{0, 1, 0, 1}, {1, 1500, 1, 1500}}});
}

TEST(Blocks, TermsByOffsetAndSoftCapsOfLongSequencesAgreeWithRows) {
  compare({.offsets = {.by_head = {-2299, 2300}}});
  compare({.spec = "sink",
           .heads = 3,
           .share = 3,
           .dropout = 0.2F,
           .offsets = {.by_head = {-100, 101}, .by_query = {-16, 17}}});
  compare({.spec = "full+softcap(0.5)",
           .kind = AttentionKind::kSelf,
           .heads = 1,
           .given = {100, 9, ListHeads::kOfQueries},
           .offsets = {.by_query = {-700, 2000}}});
  compare({.spec = "full+softcap(2)",
           .dim = 24,
           .given = {300, 2, ListHeads::kShared},
           .sequences = {{0, 900, 0, 900}, {900, 1500, 900, 1500}},
           .offsets = {.by_head = {-1300, 1000}}});
}

TEST(Blocks, RefusesWithReasons) {
  AttentionProblem problem;
  EXPECT_EQ(kBlocksKernel.refuses(problem), std::vector<std::string>{"no lists of blocks come with the call"});
  problem.given = {.block = 8, .count = 3};
  EXPECT_EQ(kBlocksKernel.refuses(problem), std::vector<std::string>{"the lists name blocks of 8 keys, fewer than 16"});
  problem.given.block = 16, problem.spec = parse_attention("window(3)+topk(2)+relu"), problem.keys_listed = true;
  problem.offsets.product.count = problem.offsets.sums.count = 1;
  EXPECT_EQ(
      kBlocksKernel.refuses(problem),
      (std::vector<std::string>{"keys lie where a list says", "products by distance", "sums of weights by distance",
                                "the spec has a pattern", "the spec has topk", "the transform is not softmax"}));
}

}  // namespace
}  // namespace fovea::kernels::blocks_test
