#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fovea/base/test_message.h"
#include "fovea/nn/memory.h"
#include "fovea/nn/test_gradients.h"
#include "fovea/nn/test_models.h"
#include "fovea/ops/rotary.h"
#include "fovea/spec/positions.h"

// Models with norms before and behind each block, gains of 1 + w, scores by another scalar, and layers with windows and
// positions of their own, as Gemma 3 has them, or soft caps, as Gemma 2 has them.
namespace fovea::nn::testing::sandwich {
namespace {

DecoderConfig decoder() {
  DecoderConfig config = tiny_decoder();
  config.transformer_norm = "sandwich";
  config.transformer_norm_kind = "rms";
  config.norm_gain = "zero-centered";
  config.transformer_norm_qk = "rms";
  config.transformer_dim_head = 6;
  config.transformer_heads_kv = 1;
  config.attention_scalar = 5;
  config.transformer_ffn_activation = "geglu-tanh";
  config.transformer_positions = "rotary(100,factor=2)";
  config.positions_layers = {"decoder.2=rotary(7)"};
  config.attention_layers = {"decoder.2=window(3)"};
  config.norm_epsilon = 1e-3;
  return config;
}

constexpr double kScoreCap = 0.5, kLogitCap = 1.5;
DecoderConfig capped_decoder() {
  DecoderConfig config = decoder();
  config.attention = "softcap(0.5)";
  config.attention_layers = {"decoder.2=window(3)+softcap(0.5)"};
  config.logit_softcap = kLogitCap;
  return config;
}

// c tanh(x / c), and x for c = 0.
at::Tensor capped(const at::Tensor& x, double cap) { return cap == 0 ? x : cap * (x / cap).tanh(); }

// The definition on one sequence, from the names of the parameters, [n, M].
class Definition {
 public:
  explicit Definition(const Model& model, double cap = 0) : all_(model->named_parameters()), cap_(cap) {}

  at::Tensor operator()(const at::Tensor& tokens) const {
    at::Tensor x = get("embeddings.weight").index_select(0, tokens) * std::sqrt(12.0);
    for (const int64_t layer : {0, 1}) {
      const std::string name = "layers." + std::to_string(layer) + ".";
      x = x + normed(name + "self_attention_output_norm",
                     attention(name + "self_attention.", normed(name + "self_attention_norm", x), layer));
      x = x + normed(name + "feed_forward_output_norm",
                     feed_forward(name + "feed_forward.", normed(name + "feed_forward_norm", x)));
    }
    return normed("norm", x);
  }

 private:
  const at::Tensor& get(const std::string& name) const { return all_[name]; }
  at::Tensor normed(const std::string& name, const at::Tensor& x) const {
    return x / (x * x).mean(-1, true).add(1e-3).sqrt() * (1 + get(name + ".weight"));
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return x.matmul(get(name + "weight").t()) + get(name + "bias");
  }
  // Pair i of numbers i and i + 3 turns by position / (base^(i / 3) factor).
  static at::Tensor turned(const at::Tensor& x, double base, double factor) {
    const at::Tensor positions = torch::arange(x.size(0), at::kDouble).view({-1, 1, 1});
    const at::Tensor angles = positions * torch::pow(base, -torch::arange(3, at::kDouble) / 3) / factor;
    const at::Tensor a = x.narrow(2, 0, 3), b = x.narrow(2, 3, 3);
    return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, 2);
  }
  at::Tensor attention(const std::string& name, const at::Tensor& x, int64_t layer) const {
    const at::Tensor heads = linear(name + "qkv.", x).view({-1, 5, 6});
    const double base = layer == 0 ? 100 : 7, factor = layer == 0 ? 2 : 1;
    const at::Tensor q = turned(normed(name + "q_norm", heads.narrow(1, 0, 3)), base, factor);
    const at::Tensor k = turned(normed(name + "k_norm", heads.narrow(1, 3, 1)), base, factor).squeeze(1);
    const at::Tensor v = heads.select(1, 4);
    const int64_t n = x.size(0);
    const at::Tensor place = torch::arange(n), distance = place.unsqueeze(1) - place.unsqueeze(0);
    const at::Tensor hidden = distance.lt(0).logical_or(distance.ge(layer == 0 ? n : 3));
    const at::Tensor products = q.transpose(0, 1).matmul(k.t()) / std::sqrt(5.0);
    const at::Tensor scores = capped(products, cap_).masked_fill(hidden, -1e30);
    return linear(name + "out.", scores.softmax(-1).matmul(v).transpose(0, 1).reshape({n, 18}));
  }
  at::Tensor feed_forward(const std::string& name, const at::Tensor& x) const {
    const at::Tensor in = linear(name + "in.", x), a = in.narrow(1, 0, 10);
    const at::Tensor u = std::sqrt(2 / M_PI) * (a + 0.044715 * a.pow(3));
    return linear(name + "out.", a * (1 + u.tanh()) / 2 * in.narrow(1, 10, 10));
  }

  torch::OrderedDict<std::string, at::Tensor> all_;
  double cap_;  // of the scores
};

TEST(Sandwich, IsItsDefinition) {
  Model model = make(decoder());
  const torch::NoGradGuard guard;
  const Packed text = random_batch({9, 1, 4}, 17, 4);
  const at::Tensor hidden = model->decode({text.tokens, text.offsets}, {});
  const Definition definition(model);
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 9}, {9, 1}, {10, 4}})
    EXPECT_LT(greatest_difference(hidden.narrow(0, first, count), definition(text.tokens.narrow(0, first, count))),
              1e-11);
}

TEST(Sandwich, SoftCapsAreTheirDefinition) {
  Model model = make(capped_decoder());
  const torch::NoGradGuard guard;
  const Packed text = random_batch({9}, 17, 4);
  const at::Tensor hidden = model->decode({text.tokens, text.offsets}, {});
  const at::Tensor expected = Definition(model, kScoreCap)(text.tokens);
  EXPECT_LT(greatest_difference(hidden, expected), 1e-11);
  EXPECT_GT(greatest_difference(hidden, Definition(model)(text.tokens)), 1e-4) << "the cap bends nothing here";
  const at::Tensor logits = expected.matmul(model->output_weight().t()) + model->output_bias();
  const at::Tensor log_probs = capped(logits, kLogitCap).log_softmax(-1);
  // The operator gives float32.
  const auto scores = ops::token_scores(hidden, model->output_layer(), text.tokens);
  EXPECT_LT(greatest_difference(scores.nll, -log_probs.gather(1, text.tokens.unsqueeze(1)).squeeze(1)), 1e-6);
  EXPECT_GT(greatest_difference(log_probs, logits.log_softmax(-1)), 1e-3) << "the cap bends nothing here";
}

TEST(Sandwich, StepsAreFullPasses) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const DecoderConfig& config : {decoder(), capped_decoder()}) {
      Model model = make(config, type);
      expect_steps_as_full_passes(model, type);
    }
  }
}

TEST(Sandwich, GradientsOfSoftCapsAreDifferences) {
  Model model = make(capped_decoder());
  const Packed text = random_batch({7, 3}, 17, 4);
  check_gradients(*model, [&] { return loss_of(model, text, {.training = true}); });
}

TEST(Sandwich, MemoryGivesTheFullPass) {
  Model model = make(decoder());
  const Packed text = random_batch({9}, 17, 2);
  const torch::NoGradGuard guard;
  const at::Tensor whole = model->decode({text.tokens, text.offsets}, {});
  const auto pass = [&](int64_t first, int64_t count, Memory memory) {
    auto own = std::make_shared<MemoryPass>(std::move(memory), 9);
    const at::Tensor hidden =
        model->decode({text.tokens.narrow(0, first, count), torch::tensor({int64_t{0}, count}), {}, {}, own}, {});
    EXPECT_LT((hidden - whole.narrow(0, first, count)).abs().max().item<double>(), 1e-11);
    return own->take();
  };
  pass(5, 4, pass(0, 5, Memory::none(1)));
}

TEST(Sandwich, GradientsAreDifferences) {
  for (const char* norm : {"sandwich", "pre"}) {
    DecoderConfig config = decoder();
    config.transformer_norm = norm;
    config.transformer_dropout = 0.1;
    Model model = make(config);
    const Packed text = random_batch({7, 3}, 17, 4);
    const auto loss = [&](bool recompute) {
      return loss_of(model, text, {.training = true, .dropout_seed = 9, .recompute = recompute});
    };
    check_gradients(*model, [&] { return loss(false); });
    const auto plain = gradients_of(*model, loss(false)), again = gradients_of(*model, loss(true));
    for (const auto& [name, gradient] : plain) EXPECT_TRUE(at::equal(gradient, again.at(name))) << name;
  }
}

TEST(Sandwich, BothSidesMayHaveIt) {
  EncoderDecoderConfig config = tiny();
  config.transformer_norm = "sandwich";
  Model model = make(config);
  const auto parameters = model->named_parameters();
  for (const char* name : {"encoder.layers.1.feed_forward_output_norm.bias", "encoder.norm.weight",
                           "decoder.layers.0.cross_attention_output_norm.weight"})
    EXPECT_NE(parameters.find(name), nullptr) << name;
  const Packed source = random_batch({5, 3}, 17, 1), target = random_batch({4, 6}, 19, 2);
  check_gradients(*model, [&] { return loss_of(model, source, target, {.training = true}); });
}

TEST(Sandwich, ZeroCenteredGainsAreOneMore) {
  DecoderConfig config = decoder(), plain = config;
  plain.norm_gain = "plain";
  Model model(config, 3, MediaInput{}), same(plain, 3, MediaInput{});
  const auto given = model->named_parameters();
  for (auto& parameter : same->named_parameters()) {
    const at::Tensor& own = given[parameter.key()];
    if (parameter.key().find("norm") == std::string::npos) continue;
    EXPECT_EQ(own.abs().max().item<double>(), 0) << parameter.key();
    EXPECT_TRUE(at::equal(own + 1, parameter.value())) << parameter.key();
  }
  const Packed text = random_batch({6, 3}, 17, 1);
  const torch::NoGradGuard guard;
  EXPECT_TRUE(at::equal(model->decode({text.tokens, text.offsets}, {}), same->decode({text.tokens, text.offsets}, {})));
}

TEST(Sandwich, AnAttentionScalarScalesQueries) {
  for (const char* positions : {"rotary", "none", "transformer-xl"}) {
    DecoderConfig config = tiny_decoder("window(4)"), plain = config;
    config.transformer_positions = plain.transformer_positions = positions;
    config.attention_scalar = 1;
    Model model = make(config), scaled = make(plain);
    const torch::NoGradGuard guard;
    // Heads of 4 numbers: their queries are doubled.
    for (auto& parameter : scaled->named_parameters())
      if (parameter.key().find("qkv") != std::string::npos) parameter.value().narrow(0, 0, 12).mul_(2);
    const Packed text = random_batch({6, 3}, 17, 1);
    EXPECT_LT(greatest_difference(model->decode({text.tokens, text.offsets}, {}),
                                  scaled->decode({text.tokens, text.offsets}, {})),
              1e-12)
        << positions;
    expect_steps_as_full_passes(model, at::kDouble);
  }
}

TEST(Sandwich, LayersMayHaveNoPositions) {
  DecoderConfig config = tiny_decoder();
  config.transformer_positions = "rotary";
  config.positions_layers = {"decoder.1-2=rotary(50)", "decoder.1-2=none"};
  DecoderConfig none = config;
  none.transformer_positions = "none";
  none.positions_layers = {};
  Model model = make(config), without = make(none);
  const torch::NoGradGuard guard;
  const Packed text = random_batch({6, 3}, 17, 1);
  EXPECT_TRUE(
      at::equal(model->decode({text.tokens, text.offsets}, {}), without->decode({text.tokens, text.offsets}, {})));
}

}  // namespace
}  // namespace fovea::nn::testing::sandwich
