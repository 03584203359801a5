#include "fovea/nn/ssru.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "fovea/nn/test_gradients.h"
#include "fovea/nn/test_models.h"

// Models whose decoder is recurrent.
namespace fovea::nn::ssru_test {
namespace {

using testing::check_gradients;
using testing::full_pass;
using testing::loss_of;
using testing::make;
using testing::Packed;
using testing::random_batch;

EncoderDecoderConfig recurrent(const std::string& norm) {
  EncoderDecoderConfig config = testing::tiny("topk(3)");
  config.attention_cross = "full";
  config.transformer_decoder_autoreg = "ssru";
  config.transformer_norm = norm;
  return config;
}

// The definition, number by number in double, with the matrices as they are named.
TEST(Ssru, IsItsDefinition) {
  Ssru unit(3, InitScope(5));
  unit.to(at::kDouble);
  testing::perturb(unit);
  const auto named = unit.named_parameters();
  const at::Tensor weight = named["weight"], gate_bias = named["gate_bias"];
  ASSERT_EQ(weight.sizes(), (std::vector<int64_t>{6, 3}));
  const at::Tensor x = testing::random_like(at::empty({5, 3}), 4), offsets = torch::tensor({0, 2, 5}, at::kLong);
  const torch::NoGradGuard guard;
  const at::Tensor out = unit(x, offsets);
  double state[3] = {};
  for (int64_t t = 0; t < 5; ++t) {
    if (t == 2) std::fill_n(state, 3, 0.0);
    for (int64_t i = 0; i < 3; ++i) {
      double value = 0, gate = gate_bias[i].item<double>();
      for (int64_t j = 0; j < 3; ++j) {
        value += weight[i][j].item<double>() * x[t][j].item<double>();
        gate += weight[3 + i][j].item<double>() * x[t][j].item<double>();
      }
      const double f = 1 / (1 + std::exp(-gate));
      state[i] = f * state[i] + (1 - f) * value;
      EXPECT_NEAR(out[t][i].item<double>(), std::max(state[i], 0.0), 1e-14);
    }
  }
}

TEST(RecurrentDecoder, HasNoSelfAttention) {
  for (const char* positions : {"sinusoidal", "shaw(4)", "transformer-xl", "rotary"}) {
    EncoderDecoderConfig config = recurrent("pre");
    config.transformer_positions = positions;
    const Model model(config, 3);
    std::vector<std::string> names;
    for (const auto& item : model->named_parameters()) {
      EXPECT_FALSE(item.key().starts_with("decoder.layers.0.self_attention")) << item.key();
      EXPECT_FALSE(item.key().starts_with("decoder.relative")) << item.key();
      names.push_back(item.key());
    }
    for (const char* name : {"decoder.layers.1.ssru.weight", "decoder.layers.1.ssru.gate_bias",
                             "decoder.layers.1.ssru_norm.weight", "encoder.layers.1.self_attention.qkv.weight"})
      EXPECT_TRUE(std::ranges::find(names, name) != names.end()) << name;
  }
}

TEST(RecurrentDecoder, GradientsAreFiniteDifferences) {
  const Packed source = random_batch({3, 5}, 17, 1), target = random_batch({4, 1}, 19, 2);
  for (const char* norm : {"post", "pre"}) {
    EncoderDecoderConfig config = recurrent(norm);
    config.transformer_dropout = 0.2;
    Model model = make(config);
    const ForwardContext context{.training = true, .dropout_seed = 3, .recompute = config.transformer_norm == "pre"};
    check_gradients(*model, [&] { return loss_of(model, source, target, context); });
  }
}

// Rows of one sentence and of several, that multiply and leave, against full passes over what they are.
TEST(RecurrentDecoder, StepsAreTheFullPass) {
  const std::vector<int64_t> sentences = {0, 0, 1};
  constexpr int64_t kLength = 6;
  const Packed source = random_batch({5, 4}, 17, 1);
  const Packed by_row{at::cat({source.tokens.slice(0, 0, 5), source.tokens}), torch::tensor({0, 5, 10, 14}, at::kLong)};
  const Packed target = random_batch({kLength, kLength, kLength}, 19, 2);
  for (const char* norm : {"post", "pre"}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      Model model = make(recurrent(norm), type);
      const at::Tensor expected = full_pass(model, by_row, target).view({-1, kLength, 12});
      const torch::NoGradGuard guard;
      auto state =
          model->start({model->encode({source.tokens, source.offsets}, {}), source.offsets}, sentences, model->pack());
      // Cross-attention sums in another order.
      const double bound = type == at::kDouble ? 1e-11 : 1e-4;
      const at::Tensor tokens = target.tokens.view({-1, kLength});
      for (int64_t t = 0; t < kLength; ++t) {
        const at::Tensor hidden = state->step(tokens.select(1, t).contiguous());
        EXPECT_LT((hidden - expected.select(1, t)).abs().max().item<double>(), bound) << type << " step " << t;
      }
      EXPECT_EQ(state->lengths()[0], kLength);
      // Row 1 goes on twice, row 0 leaves, and row 2 stays: the same next token gives the same state twice.
      state->reorder({1, 1, 2});
      const at::Tensor next = state->step(torch::tensor({7, 7, 3}, at::kLong));
      EXPECT_TRUE(torch::equal(next[0], next[1]));
      const at::Tensor longer = at::cat({tokens[1], torch::tensor({7}, at::kLong)});
      const Packed first{source.tokens.slice(0, 0, 5), torch::tensor({0, 5}, at::kLong)};
      const at::Tensor whole = full_pass(model, first, {longer, torch::tensor({int64_t{0}, kLength + 1}, at::kLong)});
      EXPECT_LT((next[0] - whole[kLength]).abs().max().item<double>(), bound);
    }
  }
}

TEST(RecurrentDecoder, ASentenceIsTheSameAloneAndAmongOthersToTheBit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Model model = make(recurrent("pre"), type);
    const Packed source = random_batch({5, 1, 7}, 17, 1), target = random_batch({3, 6, 2}, 19, 2);
    const at::Tensor all = full_pass(model, source, target);
    for (int64_t s = 0; s < 3; ++s) {
      const auto alone = [s](const Packed& of) {
        const int64_t begin = of.offsets[s].item<int64_t>(), end = of.offsets[s + 1].item<int64_t>();
        return Packed{of.tokens.slice(0, begin, end), torch::tensor({int64_t{0}, end - begin}, at::kLong)};
      };
      const at::Tensor own = full_pass(model, alone(source), alone(target));
      EXPECT_TRUE(
          torch::equal(own, all.slice(0, target.offsets[s].item<int64_t>(), target.offsets[s + 1].item<int64_t>())));
    }
  }
}

// The quantised product in double: a scale per row of each factor, units of the nearest whole number up to 127.
at::Tensor quantised_product(const at::Tensor& x, const at::Tensor& weight) {
  const auto scale = [](const at::Tensor& of) { return of.to(at::kDouble).abs().amax(1, true) / 127; };
  const auto units = [&](const at::Tensor& of) { return (of.to(at::kDouble) / scale(of)).round(); };
  return units(x).mm(units(weight).t()) * scale(x) * scale(weight).t();
}

TEST(Int8Passes, LinearLayersAreTheQuantisedProduct) {
  const torch::NoGradGuard guard;
  Linear layer({70, 33, 0.5}, InitScope(3));
  layer.bias.copy_(testing::random_like(layer.bias, 5));
  const at::Tensor x = testing::random_like(at::empty({200, 70}), 6).to(at::kFloat);
  const at::Tensor exact = layer(x), want = quantised_product(x, layer.weight) + layer.bias;
  layer.freeze(ops::PrepackedLayer::Format::kInt8);
  const at::Tensor got = layer(x);
  // A number that lies between two units in float may have the other one: then a sum is off by one unit of the factor
  // times one weight, which few of them are; all others are a float32 rounding of sums below 32 away.
  const at::Tensor apart = (got.to(at::kDouble) - want).abs();
  EXPECT_GT((apart < 32 * 0x1p-22).to(at::kDouble).mean().item<double>(), 0.99);
  EXPECT_LT(apart.max().item<double>(), x.abs().max().item<double>() / 127);
  EXPECT_GT((exact - got).abs().max().item<double>(), 1e-3);
}

// Products in int8 in full passes: a sentence alone has the bits that it has among others, steps are the full pass, and
// rounding to 127 units on either side of some twenty products, each by half a hundredth, moves states by some
// hundredths.
TEST(Int8Passes, AreNearExactOnesAndTheirSteps) {
  for (const char* autoreg : {"self-attention", "ssru"}) {
    EncoderDecoderConfig config = recurrent("pre");
    config.transformer_decoder_autoreg = autoreg;
    config.dim_emb = 48;
    config.attention = "full";  // a selection would change with the scores
    Model exact = make(config, at::kFloat), model = make(config, at::kFloat);
    model->use_int8();
    const Packed source = random_batch({5, 9}, 17, 1), target = random_batch({4, 4}, 19, 2);
    const at::Tensor all = full_pass(model, source, target), want = full_pass(exact, source, target);
    const double error = ((all - want).norm() / want.norm()).item<double>();
    EXPECT_LT(error, 0.1);
    EXPECT_GT(error, 1e-5);  // they are in int8
    const Packed first_source{source.tokens.slice(0, 0, 5), torch::tensor({0, 5}, at::kLong)},
        first_target{target.tokens.slice(0, 0, 4), torch::tensor({0, 4}, at::kLong)};
    EXPECT_TRUE(torch::equal(full_pass(model, first_source, first_target), all.slice(0, 0, 4)));
    const torch::NoGradGuard guard;
    auto state = model->start({model->encode({source.tokens, source.offsets}, {}), source.offsets}, {0, 1},
                              model->pack(ops::PrepackedLayer::Format::kInt8));
    for (int64_t t = 0; t < 4; ++t) {
      const at::Tensor hidden = state->step(target.tokens.view({2, 4}).select(1, t).contiguous());
      const double apart = (hidden - all.view({2, 4, 48}).select(1, t)).abs().max().item<double>();
      // A sum in another order may round to another of 127 units.
      EXPECT_LT(apart, 0.1) << autoreg << " step " << t;
    }
  }
}

}  // namespace
}  // namespace fovea::nn::ssru_test
