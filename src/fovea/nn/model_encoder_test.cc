#include "fovea/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/spec/testing/classic_layers.h"

namespace fovea::nn::model_encoder_test {
namespace {

EncoderConfig small_config() {
  EncoderConfig config;
  set_classic_layers(config);
  config.dim_emb = 12;
  config.enc_depth = 2;
  config.transformer_heads = 3;
  config.transformer_dim_ffn = 10;
  config.dim_vocabs = {17};
  config.max_positions = 20;
  return config;
}

// All weights random, so that an error in any shows.
Model random_model(const EncoderConfig& config) {
  Model model(config, 3);
  const torch::NoGradGuard guard;
  Rng rng(7);
  for (auto& parameter : model->parameters()) {
    float* data = parameter.mutable_data_ptr<float>();
    for (int64_t i = 0; i < parameter.numel(); ++i) data[i] += 0.3F * static_cast<float>(rng.normal());
  }
  model->eval();
  return model;
}

EncoderInput input_of(const std::vector<int64_t>& tokens, const std::vector<int64_t>& offsets) {
  return {torch::tensor(tokens, at::kLong), torch::tensor(offsets, at::kLong)};
}

at::Tensor norm_of(const at::Tensor& x, const NamedTensors& weights, const std::string& name, double epsilon) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred / (centred.pow(2).mean(-1, true) + epsilon).sqrt() * weights.at(name + ".weight") +
         weights.at(name + ".bias");
}

// BERT's form, by its equations, in double.
at::Tensor bert_by_hand(const EncoderConfig& config, NamedTensors weights, const at::Tensor& tokens, int64_t type,
                        int64_t layers) {
  for (auto& [name, tensor] : weights) tensor = tensor.detach().to(at::kDouble);
  const int64_t length = tokens.size(0), heads = config.transformer_heads;
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::matmul(x, weights.at(name + ".weight").t()) + weights.at(name + ".bias");
  };
  at::Tensor x = weights.at("embeddings.weight").index_select(0, tokens) +
                 weights.at("positions.weight").narrow(0, 0, length) + weights.at("token_types.weight")[type];
  x = norm_of(x, weights, "embedding_norm", config.norm_epsilon);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = cat("layers.", i, ".");
    const auto qkv = linear(x, layer + "self_attention.qkv").view({length, 3, heads, -1}).permute({1, 2, 0, 3});
    const at::Tensor scores =
        at::matmul(qkv[0], qkv[1].transpose(1, 2)) / std::sqrt(static_cast<double>(config.dim_emb / heads));
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), qkv[2]).transpose(0, 1).reshape({length, -1});
    x = norm_of(x + linear(mixed, layer + "self_attention.out"), weights, layer + "self_attention_norm",
                config.norm_epsilon);
    const at::Tensor inner = at::gelu(linear(x, layer + "feed_forward.in"));
    x = norm_of(x + linear(inner, layer + "feed_forward.out"), weights, layer + "feed_forward_norm",
                config.norm_epsilon);
  }
  return x;
}

TEST(EncoderOnly, ComputesBert) {
  EncoderConfig config = small_config();
  config.embedding_norm = true;
  config.token_types = 2;
  config.norm_epsilon = 0.01;  // large enough to be seen
  config.transformer_positions = "learned";
  config.transformer_ffn_activation = "gelu";
  const Model model = random_model(config);
  const torch::NoGradGuard guard;
  EncoderInput input = input_of({1, 5, 9, 5, 3, 2, 2, 8}, {0, 5, 8});
  for (const int64_t type : {0, 1}) {
    if (type == 1) input.types = at::ones({8}, at::kLong);
    const std::vector<at::Tensor> layers = Model(model)->first_layers(input, 2);
    for (int64_t count = 0; count <= 2; ++count) {
      const at::Tensor first = bert_by_hand(config, parameters_of(*model), input.tokens.narrow(0, 0, 5), type, count);
      const at::Tensor second = bert_by_hand(config, parameters_of(*model), input.tokens.narrow(0, 5, 3), type, count);
      // float32 against double
      EXPECT_TRUE(
          at::allclose(layers[static_cast<size_t>(count)].to(at::kDouble), at::cat({first, second}), 1e-5, 1e-5))
          << count;
    }
    EXPECT_TRUE(Model(model)->encode(input, {}).equal(layers.back()));
  }
}

TEST(EncoderOnly, SequencesDoNotDependOnEachOther) {
  for (const char* attention : {"full", "topk(2)", "1*window(3);2*entmax(1.5)"}) {
    EncoderConfig config = small_config();
    config.attention = attention;
    config.transformer_norm = "pre";
    Model model = random_model(config);
    const torch::NoGradGuard guard;
    const at::Tensor together = model->encode(input_of({1, 5, 9, 5, 3, 2, 2, 8}, {0, 5, 8}), {});
    EXPECT_TRUE(model->encode(input_of({1, 5, 9, 5, 3}, {0, 5}), {}).equal(together.narrow(0, 0, 5))) << attention;
  }
}

TEST(EncoderOnly, GradientsReachAllParameters) {
  EncoderConfig config = small_config();
  config.embedding_norm = true;
  config.token_types = 1;
  config.transformer_positions = "learned";
  Model model = random_model(config);
  const at::Tensor out = model->encode(input_of({1, 5, 9}, {0, 3}), {.training = true, .dropout_seed = 4});
  (out * torch::arange(1, 13)).sum().backward();
  for (const auto& [name, parameter] : parameters_of(*model)) EXPECT_TRUE(parameter.grad().defined()) << name;
}

TEST(EncoderOnly, MechanismsAreReplaced) {
  Model model = random_model(small_config());
  const torch::NoGradGuard guard;
  const EncoderInput input = input_of({1, 5, 9, 5, 3}, {0, 5});
  const at::Tensor full = model->encode(input, {});
  model->override_attention({.attention_encoder = "topk(1)"});
  EXPECT_FALSE(model->encode(input, {}).equal(full));
  EXPECT_EQ(message_of([&] { model->override_attention({.attention_decoder = "full"}); }),
            "--attention-decoder: the model has no decoder; use --attention or --attention-encoder");
  model->override_attention({.attention = "full"});
  EXPECT_TRUE(model->encode(input, {}).equal(full));
}

}  // namespace
}  // namespace fovea::nn::model_encoder_test
