#include "fovea/ops/given_pairs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "fovea/base/error.h"

namespace fovea::ops::given_pairs_test {
namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kLength = 48, kWidth = 16, kListed = 5, kBlock = 8;

// Lists of a causal sequence: the query's own unit and some before it, -1 between.
at::Tensor lists(int64_t heads, int64_t unit) {
  at::Tensor out = at::full({kBatch, heads, kLength, kListed}, -1, at::kLong);
  auto x = out.accessor<int64_t, 4>();
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < kLength; ++i) {
        const int64_t own = i / unit, step = 1 + (b + h + i) % 3;
        for (int64_t e = 0; e < 3 && own - e * step >= 0; ++e) x[b][h][i][(e * 2 + i) % kListed] = own - e * step;
      }
    }
  }
  return out;
}

// The dense definition in double.
at::Tensor by_mask(const std::vector<at::Tensor>& x, const at::Tensor& entries, int64_t unit) {
  const int64_t share = kHeads / kKeyHeads;
  at::Tensor listed = at::zeros({kBatch, kHeads, kLength, kLength}, at::kBool);
  auto mask = listed.accessor<bool, 4>();
  auto list = entries.accessor<int64_t, 4>();
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kLength; ++i)
        for (int64_t e = 0; e < kListed; ++e)
          for (int64_t j = 0; j <= i; ++j)
            if (list[b][entries.size(1) == 1 ? 0 : h / share][i][e] == j / unit) mask[b][h][i][j] = true;
  const at::Tensor q = x[0].to(at::kDouble), k = x[1].to(at::kDouble).repeat_interleave(share, 1),
                   v = x[2].to(at::kDouble).repeat_interleave(share, 1);
  const at::Tensor scores = at::matmul(q, k.transpose(-1, -2)).mul(1 / std::sqrt(static_cast<double>(kWidth)));
  return at::matmul(at::softmax(scores.masked_fill(listed.logical_not(), -INFINITY), -1), v);
}

std::vector<at::Tensor> inputs(at::ScalarType type) {
  at::manual_seed(3);
  std::vector<at::Tensor> x;
  for (const int64_t heads : {kHeads, kKeyHeads, kKeyHeads}) {
    x.push_back(at::randn({kBatch, heads, kLength, kWidth}).to(type).requires_grad_());
  }
  return x;
}

AttentionOptions options() {
  AttentionOptions given;
  given.kind = AttentionKind::kCausal, given.enable_gqa = true;
  return given;
}

void expect_definition(const AttentionOptions& given, const at::Tensor& entries, int64_t unit) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const std::vector<at::Tensor> x = inputs(type);
    const double tolerance = type == at::kBFloat16 ? 3e-2 : type == at::kFloat ? 2e-5 : 1e-10;
    const at::Tensor out = attention(x[0], x[1], x[2], "full", given), right = by_mask(x, entries, unit);
    EXPECT_TRUE(at::allclose(out.to(at::kDouble), right, tolerance, tolerance)) << type;
    const at::Tensor grad = at::randn(out.sizes(), at::kDouble);
    const auto got = torch::autograd::grad({out}, x, {grad.to(type)});
    const auto wanted = torch::autograd::grad({right}, x, {grad});
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(at::allclose(got[i].to(at::kDouble), wanted[i].to(at::kDouble), 4 * tolerance, 4 * tolerance))
          << type << " gradient " << i;
    }
  }
}

TEST(GivenPairs, KeysForAllHeads) {
  const at::Tensor entries = lists(1, 1);
  AttentionOptions given = options();
  given.pairs = pair_lists({.indices = entries.select(1, 0)});
  expect_definition(given, entries, 1);
  given.pairs.lists = given.pairs.lists.to(at::kInt);
  expect_definition(given, entries, 1);
}

TEST(GivenPairs, BlocksForEachHeadOfKeys) {
  const at::Tensor entries = lists(kKeyHeads, kBlock);
  AttentionOptions given = options();
  given.pairs = pair_lists({.block_indices = entries, .block_size = kBlock});
  expect_definition(given, entries, kBlock);
}

TEST(GivenPairs, ListsAreSortedAndCompact) {
  kernels::AttentionProblem problem;
  problem.given = {.block = 1, .count = 4};
  problem.sequences = {{0, 2, 0, 900}};
  const at::Tensor given = at::empty({2, 4}, at::kLong);
  const std::vector<int64_t> values{7, -1, 3, 899, -1, -1, -1, 0};
  std::copy(values.begin(), values.end(), given.mutable_data_ptr<int64_t>());
  const at::Tensor sorted = given_lists(given, problem, /*packed=*/true);
  const auto* list = sorted.const_data_ptr<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(list, list + 8), (std::vector<int32_t>{3, 7, 899, -1, 0, -1, -1, -1}));
}

std::string message(const NamedLists& named) {
  const std::vector<at::Tensor> x = inputs(at::kFloat);
  AttentionOptions given = options();
  try {
    given.pairs = pair_lists(named);
    attention(x[0], x[1], x[2], "full", given);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(GivenPairs, BadListsGetOneLine) {
  const auto expect = [](const NamedLists& named, const std::string& part) {
    const std::string got = message(named);
    EXPECT_NE(got.find(part), std::string::npos) << got;
    EXPECT_EQ(got.find('\n'), std::string::npos) << got;
  };
  const at::Tensor keys = lists(1, 1).select(1, 0);
  keys.mutable_data_ptr<int64_t>()[0] = kLength;
  expect({keys}, "indices names key 48 for query 0 of sequence 0; expected 0 to 47 of the sequence's 48 keys, or -1");
  keys.mutable_data_ptr<int64_t>()[0] = 9;
  expect({keys}, "names key 9 for query 0 of sequence 0, which lies behind the query under the causal limit");
  keys.select(0, 1).select(0, 30).fill_(4);
  keys.mutable_data_ptr<int64_t>()[0] = 0;
  expect({keys}, "names key 4 for query 30 of sequence 1 twice; expected each once");
  expect({at::zeros({kBatch, kLength, 3})},
         "indices is Float [2, 48, 3] on cpu; expected int32 or int64 [B, N_q, k], shared by all heads");
  const at::Tensor longer = at::zeros({kBatch, kLength + 1, 3}, at::kLong);
  expect({longer}, "indices is Long [2, 49, 3]");
  expect({longer, longer}, "got indices and block_indices");
  expect({{}, longer}, "block_indices is Long [2, 49, 3] on cpu; expected int32 or int64 [B, H_kv or H, N_q, k]");
  expect({{}, {}, 64}, "got block_size 64 without block_indices");
}

}  // namespace
}  // namespace fovea::ops::given_pairs_test
