#include <gtest/gtest.h>

#include <cmath>

#include "fovea/nn/memory.h"
#include "fovea/nn/test_models.h"
#include "fovea/ops/step.h"

// Models whose matrices have no biases, or only those of queries, keys and values, and embeddings that are not scaled.
namespace fovea::nn::testing::biases {
namespace {

DecoderConfig decoder(const std::string& biases) {
  DecoderConfig config = tiny_decoder("window(4)|global(1)");
  config.transformer_positions = "rotary";
  config.transformer_norm_kind = "rms";
  config.transformer_ffn_activation = "swiglu";
  config.transformer_heads_kv = 1;
  config.norm_epsilon = 1e-3;
  config.transformer_biases = biases;
  return config;
}

// Gives `to` the parameters of `from`, and zeros for biases that `from` lacks.
void take(Model& to, const Model& from) {
  const torch::NoGradGuard guard;
  const auto given = from->named_parameters();
  for (auto& parameter : to->named_parameters()) {
    if (const at::Tensor* value = given.find(parameter.key())) {
      parameter.value().copy_(*value);
    } else {
      ASSERT_TRUE(parameter.key().ends_with("bias")) << parameter.key();
      parameter.value().zero_();
    }
  }
}

at::Tensor loss_of(Model& model, const Packed& text) {
  const at::Tensor hidden = model->decode({text.tokens, text.offsets}, {.training = true});
  return ops::cross_entropy(hidden, model->output_layer(), text.tokens.roll(1), 0).loss;
}

TEST(Biases, AModelWithoutThemIsOneWithZeros) {
  const Packed text = random_batch({7, 1, 12}, 17, 5);
  for (const std::string biases : {"none", "qkv"}) {
    Model model = make(decoder(biases)), full = make(decoder("all"));
    for (const auto& parameter : model->named_parameters())
      EXPECT_EQ(parameter.key().ends_with("bias"), biases == "qkv" && parameter.key().ends_with("qkv.bias"))
          << parameter.key();
    EXPECT_FALSE(model->output_bias().defined());
    take(full, model);
    const at::Tensor loss = loss_of(model, text), expected = loss_of(full, text);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
    loss.backward();
    expected.backward();
    const auto gradients = full->named_parameters();
    for (const auto& parameter : model->named_parameters())
      EXPECT_LT((parameter.value().grad() - gradients[parameter.key()].grad()).abs().max().item<double>(), 1e-12)
          << parameter.key();
  }
}

TEST(Biases, StepsAndMemoryDoWithoutThem) {
  for (const std::string biases : {"none", "qkv"}) {
    Model model = make(decoder(biases));
    const Packed text = random_batch({9}, 17, 2);
    const torch::NoGradGuard guard;
    const at::Tensor whole = model->decode({text.tokens, text.offsets}, {});
    auto state = model->start(1, model->pack());
    for (int64_t t = 0; t < 9; ++t)
      EXPECT_LT((state->step(text.tokens.narrow(0, t, 1))[0] - whole[t]).abs().max().item<double>(), 1e-11);
    // The first five tokens are memory for the rest. The pattern global(1) counts from a beginning, which memory moves.
    DecoderConfig config = decoder(biases);
    config.attention = "window(4)";
    Model remembers = make(config);
    const at::Tensor all = remembers->decode({text.tokens, text.offsets}, {});
    const auto pass = [&](int64_t first, int64_t count, Memory memory) {
      auto own = std::make_shared<MemoryPass>(std::move(memory), 9);
      const at::Tensor hidden =
          remembers->decode({text.tokens.narrow(0, first, count), torch::tensor({int64_t{0}, count}), {}, {}, own}, {});
      EXPECT_LT((hidden - all.narrow(0, first, count)).abs().max().item<double>(), 1e-11);
      return own->take();
    };
    pass(5, 4, pass(0, 5, Memory::none(1)));
  }
}

TEST(Biases, EmbeddingsMayStayAsTheyAre) {
  DecoderConfig one = decoder("none"), root = one;
  one.embedding_scale = "one";
  Model unscaled = make(one), scaled = make(root);
  take(scaled, unscaled);
  const torch::NoGradGuard guard;
  scaled->named_parameters()["embeddings.weight"].div_(std::sqrt(12.0));
  const Packed text = random_batch({6, 3}, 17, 1);
  const at::Tensor a = unscaled->decode({text.tokens, text.offsets}, {});
  const at::Tensor b = scaled->decode({text.tokens, text.offsets}, {});
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace fovea::nn::testing::biases
