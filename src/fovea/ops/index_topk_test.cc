#include "fovea/ops/index_topk.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "fovea/base/test_message.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::index_topk_test {
namespace {

using testing::normal;
using testing::within_autocast;
using testing::words;

at::Tensor offsets(std::initializer_list<int64_t> values) { return at::tensor(values, at::kLong); }

// Computes from the definition, on small whole numbers, whose sums are exact in any type and often equal.
at::Tensor definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights, int64_t k_best,
                      bool causal) {
  at::Tensor out = at::full({q.size(0), q.size(1), k_best}, -1, at::kInt);
  for (int64_t b = 0; b < q.size(0); ++b) {
    for (int64_t s = 0; s < q.size(1); ++s) {
      const int64_t limit = causal ? s + 1 + k.size(1) - q.size(1) : k.size(1);
      std::vector<std::pair<double, int64_t>> order;
      for (int64_t t = 0; t < limit; ++t) {
        const at::Tensor dots = at::matmul(q[b][s].to(at::kDouble), k[b][t].to(at::kDouble)).clamp_min(0);
        order.emplace_back(-(dots * weights[b][s].to(at::kDouble)).sum().item<double>(), t);
      }
      std::ranges::sort(order);
      std::vector<int64_t> best;
      for (size_t i = 0; i < order.size() && std::ssize(best) < k_best; ++i) best.push_back(order[i].second);
      std::ranges::sort(best);
      for (size_t i = 0; i < best.size(); ++i) out[b][s][static_cast<int64_t>(i)] = best[i];
    }
  }
  return out;
}

struct Whole {
  at::Tensor q = normal({2, 9, 3, 5}, 1).round(), k = normal({2, 23, 5}, 2).round(),
             weights = normal({2, 9, 3}, 3).round();
};

TEST(IndexTopkOperator, IsItsDefinitionInEveryType) {
  const Whole x;
  for (const bool causal : {true, false}) {
    for (const int64_t k_best : {1, 4, 30}) {
      const at::Tensor want = definition(x.q, x.k, x.weights, k_best, causal);
      for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble, at::kHalf}) {
        SCOPED_TRACE(at::toString(type));
        const at::Tensor q = x.q.to(type), k = x.k.to(type), weights = x.weights.to(type);
        const at::Tensor out = index_topk(q, k, weights, k_best, {.causal = causal});
        EXPECT_EQ(out.scalar_type(), at::kInt);
        EXPECT_TRUE(at::equal(out, want));
        EXPECT_TRUE(at::equal(index_topk(q, k, x.weights.to(at::kFloat), k_best, {.causal = causal}), want));
        const at::Tensor by_head = q.transpose(1, 2).contiguous().transpose(1, 2);
        EXPECT_TRUE(at::equal(index_topk(by_head, k, weights, k_best, {.causal = causal}), want));
      }
    }
  }
}

TEST(IndexTopkOperator, WithinAutocastIsTheOneOutside) {
  const at::Tensor q = normal({2, 50, 3, 21}, 1), k = normal({2, 90, 21}, 2), weights = normal({2, 50, 3}, 3);
  for (const auto type : {at::kHalf, at::kFloat, at::kDouble}) {
    const auto run = [&] { return index_topk(q.to(type), k.to(type), weights.to(type), 9, {.causal = false}); };
    EXPECT_TRUE(at::equal(within_autocast(run), run())) << type;
  }
}

TEST(IndexTopkOperator, PackedSequencesCountFromTheirFirstKey) {
  const at::Tensor q = normal({12, 3, 5}, 1).round(), k = normal({40, 5}, 2).round(),
                   weights = normal({12, 3}, 3).round();
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor out = index_topk(q.to(type), k.to(type), weights.to(type), 6,
                                      {.q_offsets = offsets({0, 5, 5, 12}), .k_offsets = offsets({0, 17, 20, 40})});
    for (const auto& [first, last, first_key, last_key] :
         {std::array<int64_t, 4>{0, 5, 0, 17}, std::array<int64_t, 4>{5, 12, 20, 40}}) {
      const auto batch = [](const at::Tensor& x, int64_t from, int64_t to) {
        return x.slice(0, from, to).unsqueeze(0);
      };
      EXPECT_TRUE(at::equal(batch(out, first, last), definition(batch(q, first, last), batch(k, first_key, last_key),
                                                                batch(weights, first, last), 6, true)));
    }
  }
}

TEST(IndexTopkOperator, NotFiniteScoresHaveOneOrderInAllTypes) {
  const double infinity = std::numeric_limits<double>::infinity();
  at::Tensor k = at::ones({1, 50, 1}, at::kDouble);
  k[0][9][0] = infinity, k[0][40][0] = std::numeric_limits<double>::quiet_NaN(), k[0][49][0] = -3;
  const at::Tensor q = at::ones({1, 1, 1, 1}, at::kDouble), weights = at::full({1, 1, 1}, -1, at::kDouble);
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor out = index_topk(q.to(type), k.to(type), weights.to(type), 3, {.causal = false});
    EXPECT_TRUE(at::equal(out, at::tensor({0, 40, 49}, at::kInt).view({1, 1, 3})));
  }
}

TEST(IndexTopkOperator, DoesNotDependOnThreads) {
  const at::Tensor q = normal({1, 400, 4, 32}, 1).to(at::kFloat), k = normal({1, 400, 32}, 2).to(at::kFloat);
  const at::Tensor weights = normal({1, 400, 4}, 3).to(at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = index_topk(q, k, weights, 16);
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(index_topk(q, k, weights, 16), alone));
  at::set_num_threads(threads);
}

TEST(IndexTopkOperator, TakesEmptySides) {
  const auto options = at::TensorOptions(at::kFloat);
  const auto of = [&](int64_t queries, int64_t keys) {
    return index_topk(at::ones({1, queries, 2, 3}, options), at::ones({1, keys, 3}, options),
                      at::ones({1, queries, 2}, options), 4);
  };
  EXPECT_EQ(of(0, 5).sizes(), at::IntArrayRef({1, 0, 4}));
  EXPECT_TRUE(of(3, 0).eq(-1).all().item<bool>());
}

TEST(IndexTopkOperator, RefusesWhatDoesNotFit) {
  const at::Tensor q = at::ones({2, 3, 4, 5}), k = at::ones({2, 7, 5}), weights = at::ones({2, 3, 4});
  EXPECT_EQ(message_of([&] {
              index_topk(q, at::ones({2, 7, 6}), weights, 2);
            }),
            "index_topk: q has shape [2, 3, 4, 5], k [2, 7, 6] and weights [2, 3, 4]; expected [B, S, H, D], "
            "[B, T, D] and [B, S, H], or packed [T_q, H, D], [T_k, D] and [T_q, H]");
  EXPECT_EQ(message_of([&] { index_topk(q, k.to(at::kBFloat16), weights, 2); }),
            "index_topk: q is Float on cpu, k BFloat16 on cpu and weights Float on cpu; expected one floating type, "
            "weights of it or float32, and one device");
  EXPECT_EQ(message_of([&] { index_topk(q, k, weights, 0); }), "index_topk: got k_best 0; expected 1 or more");
  EXPECT_EQ(message_of([&] {
              index_topk(q, k, weights, 2, {.q_offsets = offsets({0, 6})});
            }),
            "index_topk: got offsets for dense tensors [B, S, H, D]; flatten them to [B S, H, D]");
  EXPECT_EQ(message_of([&] {
              index_topk(q[0], k[0], weights[0], 2, {.q_offsets = offsets({0, 2}), .k_offsets = offsets({0, 7})});
            }),
            "attention: q_offsets is [0, 2]; expected it to rise from 0 to the number of tokens, 3");
}

}  // namespace
}  // namespace fovea::ops::index_topk_test
