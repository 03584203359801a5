#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fovea/nn/attention_observer.h"
#include "fovea/nn/test_gradients.h"

namespace fovea::nn::model_decoder_train_test {
namespace {

using namespace testing;

DecoderConfig trained(const std::string& attention) {
  DecoderConfig config = tiny_decoder(attention);
  config.dec_depth = 1;
  config.max_positions = 8;
  config.transformer_dropout = 0.2;
  config.transformer_dropout_ffn = 0.3;
  config.transformer_dropout_attention = 0.25;
  return config;
}

TEST(DecoderOnlyGradients, EqualCentralDifferences) {
  std::vector<DecoderConfig> configs;
  for (const char* positions :
       {"sinusoidal", "learned", "none", "rotary", "rotary(50)+learned", "shaw(2)", "shaw(1,values)", "transformer-xl",
        "rotary+shaw(2,values)+transformer-xl(clamp=2)+alibi"}) {
    configs.push_back(trained("2*topk(2);1*window(3)"));
    configs.back().transformer_positions = positions;
    configs.back().transformer_norm = configs.size() % 2 == 0 ? "pre" : "post";
  }
  for (const char* activation : {"relu", "gelu", "geglu", "swiglu"}) {
    configs.push_back(trained("relu+gated-rmsnorm"));
    configs.back().transformer_ffn_activation = activation;
    configs.back().transformer_norm_kind = configs.size() % 2 == 0 ? "rms" : "layer";
    configs.back().tied_embeddings = configs.size() % 2 == 0;
    configs.back().transformer_dropout_embedding = 0.4;
  }
  const Packed text = random_batch({3, 5, 1}, 17, 1);
  for (const DecoderConfig& config : configs) {
    SCOPED_TRACE(config.transformer_positions + " " + config.transformer_ffn_activation);
    Model model = make(config);
    check_gradients(*model, [&] { return loss_of(model, text, {.training = true, .dropout_seed = 99}); });
  }
}

TEST(DecoderOnly, EmbeddingsHaveADropoutOfTheirOwn) {
  DecoderConfig config = tiny_decoder();
  const Packed text = random_batch({6}, 17, 1);
  const auto loss = [&](double embeddings, double others, bool training) {
    config.transformer_dropout_embedding = embeddings;
    config.transformer_dropout = others;
    Model model = make(config);
    const torch::NoGradGuard guard;
    return loss_of(model, text, {.training = training, .dropout_seed = 5}).item<double>();
  };
  const double none = loss(-1, 0, true);
  EXPECT_EQ(none, loss(0.5, 0, false));
  EXPECT_NE(none, loss(0.5, 0, true));
  EXPECT_EQ(loss(-1, 0.5, true), loss(0.5, 0.5, true));
  EXPECT_NE(loss(-1, 0.5, true), loss(0, 0.5, true));
}

// The bits of the loss and of all gradients with and without gradient checkpointing.
void expect_same_gradients(torch::nn::Module& model, const std::function<at::Tensor(bool recompute)>& loss) {
  const at::Tensor kept = loss(false), again = loss(true);
  EXPECT_TRUE(kept.equal(again));
  const auto expected = gradients_of(model, kept), found = gradients_of(model, again);
  for (const auto& [name, gradient] : expected) EXPECT_TRUE(gradient.equal(found.at(name))) << name;
}

TEST(Recomputation, ChangesNoBitOfADecoderOnlyModel) {
  const Packed text = random_batch({3, 12, 1}, 17, 1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const char* attention : {"full", "topk(2)", "random(2)", "entmax(learned)", "topk(2)+sink+gate",
                                  "relu+gated-rmsnorm", "1*scaled;1*topk(2);1*entmax(1.5)+scaled"}) {
      for (const char* norm : {"pre", "post"}) {
        DecoderConfig config = trained(attention);
        config.dec_depth = 3;
        config.transformer_norm = norm;
        const bool pre = norm == std::string("pre");
        config.transformer_positions = pre ? "rotary" : "shaw(2,values)+transformer-xl(clamp=4)+alibi";
        config.transformer_norm_kind = pre ? "rms" : "layer";
        config.max_positions = 20;
        SCOPED_TRACE(std::string(attention) + " " + norm + " " + at::toString(type));
        Model model = make(config, type);
        expect_same_gradients(*model, [&](bool recompute) {
          return loss_of(model, text, {.training = true, .dropout_seed = 9, .recompute = recompute});
        });
      }
    }
  }
}

TEST(Recomputation, ChangesNoBitOfAnEncoderDecoderModel) {
  const Packed source = random_batch({3, 12, 1}, 17, 1), target = random_batch({7, 2, 5}, 17, 2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const char* norm : {"pre", "post"}) {
      ModelConfig config = tiny("topk(3)");
      config.enc_depth = config.dec_depth = 3;  // three layers add to the gradient of the encoder's output
      config.transformer_norm = norm;
      config.transformer_dropout = config.transformer_dropout_attention = config.transformer_dropout_ffn = 0.2;
      SCOPED_TRACE(std::string(norm) + " " + at::toString(type));
      Model model = make(config, type);
      expect_same_gradients(*model, [&](bool recompute) {
        return loss_of(model, source, target, {.training = true, .dropout_seed = 9, .recompute = recompute});
      });
    }
  }
}

TEST(Recomputation, IsNotObservedTwice) {
  Model model = make(trained("full"));
  const Packed text = random_batch({4}, 17, 1);
  int seen = 0;
  const AttentionObserver observer([&](const AttentionPlace&, const at::Tensor&) { ++seen; });
  loss_of(model, text, {.training = true, .dropout_seed = 1, .recompute = true}).backward();
  EXPECT_EQ(seen, 1);
}

// Between the passes the graph owns what backward needs, so the model may be gone.
TEST(Recomputation, OutlivesItsModel) {
  at::Tensor loss, weight;
  {
    Model model = make(trained("full"));
    weight = model->named_parameters()["layers.0.self_attention.qkv.weight"];
    loss = loss_of(model, random_batch({4}, 17, 1), {.training = true, .dropout_seed = 1, .recompute = true});
  }
  loss.backward();
  EXPECT_GT(weight.grad().abs().max().item<double>(), 0);
}

TEST(Recomputation, RefusesSecondDerivatives) {
  Model model = make(trained("full"));
  const at::Tensor loss =
      loss_of(model, random_batch({4}, 17, 1), {.training = true, .dropout_seed = 1, .recompute = true});
  try {
    torch::autograd::grad({loss}, {model->parameters().front()}, {}, true, true);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("gradient checkpointing: has no second derivatives"), std::string::npos);
  }
}

}  // namespace
}  // namespace fovea::nn::model_decoder_train_test
