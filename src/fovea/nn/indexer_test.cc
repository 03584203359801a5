#include "fovea/nn/indexer.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fovea/nn/pass_extras.h"
#include "fovea/nn/test_models.h"
#include "fovea/spec/resolved_layer.h"

// The indexer's choice and its loss beside their definitions in double, its start, and models that have it.
namespace fovea::nn::testing::indexer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeads = 4, kKeyHeads = 2, kWidth = 6;
constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Inputs {
  at::Tensor q, k, offsets;
};

Inputs inputs(const std::vector<int64_t>& lengths, at::ScalarType type) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  torch::manual_seed(5);
  return {torch::randn({offsets.back(), kHeads, kWidth}, type), torch::randn({offsets.back(), kKeyHeads, kWidth}, type),
          torch::tensor(offsets, at::kLong)};
}

Indexer::Pairs pairs(const Inputs& x, bool causal) { return {x.q, x.k, {causal, x.offsets, x.offsets}}; }

Indexer indexer(at::ScalarType type, const IndexerConfig& config = {.index_heads = 2, .index_width = 5}) {
  Indexer out({kHeads, kKeyHeads, kWidth}, config, InitScope(1));
  out.to(type);
  perturb(out);
  return out;
}

// The scores of all pairs of one sequence [N, N] by the definition, without a value for keys behind their query.
at::Tensor scores(const Indexer& of, const Inputs& x, int64_t b, bool causal) {
  const auto parameters = of.named_parameters();
  const auto* bounds = x.offsets.const_data_ptr<int64_t>();
  const auto rows = [&](const at::Tensor& all) {
    return all.slice(0, bounds[b], bounds[b + 1]).flatten(1).to(at::kDouble);
  };
  const auto parameter = [&](const char* name) { return parameters[name].to(at::kDouble); };
  const at::Tensor q = rows(x.q), key = at::matmul(rows(x.k), parameter("key.weight").t());
  const at::Tensor query = at::matmul(q, parameter("query.weight").t()).view({q.size(0), -1, key.size(1)});
  const at::Tensor weights = at::matmul(q, parameter("weights.weight").t()) + parameter("weights.bias");
  at::Tensor sum = at::zeros({q.size(0), q.size(0)}, at::kDouble);
  for (int64_t j = 0; j < query.size(1); ++j)
    sum = sum + weights.select(1, j).unsqueeze(1) * at::relu(at::matmul(query.select(1, j), key.t()));
  return causal ? sum.masked_fill(at::ones_like(sum).triu(1).to(at::kBool), kNothing) : sum;
}

// The `count` best keys of a row of scores, the earlier of equal ones first; ascending, with -1 for places left over.
std::vector<int32_t> best_keys(const at::Tensor& row, int64_t count) {
  std::vector<int32_t> keys(static_cast<size_t>(row.numel()));
  std::iota(keys.begin(), keys.end(), 0);
  const auto* value = row.const_data_ptr<double>();
  std::erase_if(keys, [&](int32_t key) { return value[key] == kNothing; });
  std::ranges::stable_sort(keys, [&](int32_t a, int32_t b) { return value[a] > value[b]; });
  keys.resize(std::min(keys.size(), static_cast<size_t>(count)));
  std::ranges::sort(keys);
  keys.resize(static_cast<size_t>(count), -1);
  return keys;
}

TEST(Indexer, ChoosesTheBestKeys) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Indexer of = indexer(type);
    const Inputs x = inputs({7, 1, 12}, type);
    for (const bool causal : {true, false}) {
      const at::Tensor chosen = of.choose(pairs(x, causal), 4);
      int64_t query = 0;
      for (int64_t b = 0; b < 3; ++b) {
        const at::Tensor all = scores(of, x, b, causal).detach().contiguous();
        for (int64_t i = 0; i < all.size(0); ++i, ++query) {
          const auto* own = chosen[query].const_data_ptr<int32_t>();
          EXPECT_EQ(std::vector<int32_t>(own, own + 4), best_keys(all[i], 4)) << "query " << query;
        }
      }
    }
  }
}

// The loss by its definition: the mean over queries of sum t ln(t / p) over the candidates, t of attention, p of
// scores.
at::Tensor defined_loss(const Indexer& of, const Inputs& x, bool causal, int64_t candidates) {
  const auto* bounds = x.offsets.const_data_ptr<int64_t>();
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (int64_t b = 0; b + 1 < x.offsets.numel(); ++b) {
    const at::Tensor all = scores(of, x, b, causal), values = all.detach().contiguous();
    const at::Tensor q = x.q.slice(0, bounds[b], bounds[b + 1]).to(at::kDouble);
    const at::Tensor k = x.k.slice(0, bounds[b], bounds[b + 1]).to(at::kDouble);
    for (int64_t i = 0; i < all.size(0); ++i) {
      std::vector<int32_t> keys = best_keys(values[i], candidates);
      std::erase(keys, -1);
      const at::Tensor list = torch::tensor(std::vector<int64_t>(keys.begin(), keys.end()), at::kLong);
      at::Tensor target = at::zeros({list.numel()}, at::kDouble);
      for (int64_t h = 0; h < kHeads; ++h) {
        const at::Tensor own = k.select(1, h * kKeyHeads / kHeads).index_select(0, list);
        target += at::softmax(at::matmul(own, q[i][h]) / std::sqrt(double{kWidth}), 0) / kHeads;
      }
      sum = sum + (target * (target.log() - at::log_softmax(all[i].index_select(0, list), 0))).sum();
    }
  }
  return sum / x.q.size(0);
}

TEST(Indexer, LossAndItsGradientsAreThoseOfTheDefinition) {
  for (const bool causal : {true, false}) {
    Indexer of = indexer(at::kFloat, {.index_heads = 2, .index_width = 5, .index_candidates = 3});
    Inputs x = inputs({7, 1, 12}, at::kFloat);
    x.q.requires_grad_(), x.k.requires_grad_();
    PassExtras extras;
    of.report(pairs(x, causal), 2, {.training = true, .extras = &extras});
    const at::Tensor wanted = defined_loss(of, x, causal, 6);
    EXPECT_NEAR(extras.loss().item<double>(), wanted.item<double>(), 1e-5);
    std::vector<at::Tensor> parameters = of.parameters();
    // Finite differences of the definition are autograd's of it, which are compared here.
    const auto own = torch::autograd::grad({extras.loss()}, parameters),
               right = torch::autograd::grad({wanted}, parameters);
    for (size_t p = 0; p < parameters.size(); ++p)
      EXPECT_LT((own[p] - right[p]).norm().item<double>(), 1e-5 * (1 + right[p].norm().item<double>())) << p;
    PassExtras other;
    of.report(pairs(x, causal), 2, {.training = true, .extras = &other});
    other.loss().backward();
    EXPECT_FALSE(x.q.grad().defined() || x.k.grad().defined());
    PassExtras none;
    of.report(pairs(x, causal), 2, {.training = false, .extras = &none});
    EXPECT_FALSE(none.loss().defined());
  }
}

// With as many dimensions as all key heads have, the sketch keeps products: the scores at the start are sums over heads
// of relu of the scaled products.
TEST(Indexer, BeginsAsASketch) {
  const Inputs x = inputs({9}, at::kFloat);
  const Indexer of({kHeads, kKeyHeads, kWidth}, {.index_heads = 4, .index_width = kKeyHeads * kWidth}, InitScope(1));
  const at::Tensor q = x.q.to(at::kDouble), k = x.k.to(at::kDouble);
  at::Tensor wanted = at::zeros({9, 9}, at::kDouble);
  for (int64_t h = 0; h < kHeads; ++h) {
    const at::Tensor products = at::matmul(q.select(1, h), k.select(1, h * kKeyHeads / kHeads).t());
    wanted += at::relu(products) / std::sqrt(double{kWidth});
  }
  EXPECT_LT(greatest_difference(scores(of, x, 0, false), wanted), 1e-5);
}

TEST(Indexer, OfAsManyKeysAsThereAreIsFullAttention) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    Model indexed = make(tiny_decoder("dsa(12)"), type), full = make(tiny_decoder("full"), type);
    const torch::NoGradGuard guard;
    auto given = full->named_parameters();
    for (auto& parameter : indexed->named_parameters()) {
      if (at::Tensor* own = given.find(parameter.key()); own != nullptr) parameter.value().copy_(*own);
    }
    const Packed text = random_batch({12, 5, 1}, 17, 4);
    const at::Tensor a = indexed->decode({text.tokens, text.offsets}, {}),
                     b = full->decode({text.tokens, text.offsets}, {});
    EXPECT_LT(greatest_difference(a, b), type == at::kFloat ? 1e-5 : 1e-12);
  }
}

TEST(Indexer, WhatDoesNotGoWithItIsSaid) {
  const auto message = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(
      message([] { resolve(parse_layer_spec("2*dsa(4);2*full"), 4); }),
      HasSubstr("the indexer of dsa chooses the keys of all heads of a layer; use it without other head groups"));
  EXPECT_THAT(message([] { resolved_layer("dsa(4)", 4); }), HasSubstr("a layer learns its indexer"));
  EXPECT_THAT(message([] { parse_attention("dsa(4)+scaled"); }), HasSubstr("dsa gives every query the same number"));
  EXPECT_THAT(message([] { validate(parse_attention("dsa(4)"), AttentionKind::kCross); }),
              HasSubstr("cross-attention"));
  DecoderConfig config = tiny_decoder("dsa(4)");
  config.transformer_positions = "alibi";
  EXPECT_THAT(message([&] { make(config); }), HasSubstr("whose indexer learns from scores without them"));
  config = tiny_decoder("dsa(4)");
  config.index_heads = 2;
  EXPECT_THAT(message([&] { validate(config); }),
              HasSubstr("--transformer-heads 3 is not a multiple of --index-heads 2"));
  EXPECT_EQ(print(across_texts(parse_layer_spec("dsa(4)+topk(2)"))), "topk(2)");
}

}  // namespace
}  // namespace fovea::nn::testing::indexer
