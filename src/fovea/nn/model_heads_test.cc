#include <gtest/gtest.h>

#include "fovea/nn/attention.h"
#include "fovea/nn/memory.h"
#include "fovea/nn/test_models.h"
#include "fovea/ops/step.h"

// Models whose heads have a width of their own, norms of queries and keys, scaled turns, and gates.
namespace fovea::nn::testing::heads {
namespace {

DecoderConfig decoder(int64_t width, const std::string& norm) {
  DecoderConfig config = tiny_decoder("window(4)");
  config.transformer_positions = "rotary(100,yarn,factor=4,original=8)";
  config.transformer_heads_kv = 1;
  config.norm_epsilon = 1e-12;
  config.transformer_dim_head = width;
  config.transformer_norm_qk = norm;
  return config;
}

std::vector<DecoderConfig> decoders() { return {decoder(4, "none"), decoder(10, "rms"), decoder(0, "rms")}; }

DecoderConfig gated(const std::string& attention) {
  DecoderConfig config = decoder(10, "none");
  config.attention = attention;
  return config;
}

TEST(Heads, MatricesHaveTheirWidth) {
  Model model = make(decoder(10, "rms"));
  const auto parameters = model->named_parameters();
  const DecoderConfig config = decoder(10, "rms");
  const int64_t queries = 10 * config.transformer_heads;
  EXPECT_EQ(parameters["layers.0.self_attention.qkv.weight"].sizes(), at::IntArrayRef({queries + 20, config.dim_emb}));
  EXPECT_EQ(parameters["layers.0.self_attention.out.weight"].sizes(), at::IntArrayRef({config.dim_emb, queries}));
  for (const char* name : {"q_norm", "k_norm"})
    EXPECT_EQ(parameters[std::string("layers.0.self_attention.") + name + ".weight"].sizes(), at::IntArrayRef({10}));
}

TEST(Heads, GatesAreSigmoidsOfTheInput) {
  const Packed text = random_batch({7, 3}, 17, 4);
  const torch::NoGradGuard guard;
  for (const char* gate : {"gate", "gate(head)"}) {
    DecoderConfig config = gated(std::string("window(4)+rmsnorm+") + gate), plain = gated("window(4)+rmsnorm");
    Model model = make(config), without = make(plain);
    auto other = without->named_parameters();
    for (auto& parameter : model->named_parameters()) {
      const std::string& name = parameter.key();
      if (name.ends_with(".gate.weight")) {
        const int64_t rows = config.transformer_heads * (gate == std::string("gate") ? 10 : 1);
        EXPECT_EQ(parameter.value().sizes(), at::IntArrayRef({rows, config.dim_emb}));
        parameter.value().zero_();
        continue;
      }
      other[name].copy_(parameter.value());
      // Without weights each gate is sigmoid(0), one half.
      if (name.ends_with("self_attention.out.weight")) other[name].mul_(0.5);
    }
    const auto pass = [&](Model& of) { return of->decode({text.tokens, text.offsets}, {}); };
    const at::Tensor half = pass(model);
    EXPECT_LT((half - pass(without)).abs().max().item<double>(), 1e-12) << gate;
    for (auto& parameter : model->named_parameters())
      if (parameter.key().ends_with(".gate.weight")) parameter.value().normal_();
    EXPECT_GT((half - pass(model)).abs().max().item<double>(), 1e-3) << gate;
    model->override_attention({.attention = "window(4)+rmsnorm"});
    for (auto& parameter : model->named_parameters())
      if (parameter.key().ends_with("self_attention.out.weight")) parameter.value().mul_(0.5);
    EXPECT_LT((half - pass(model)).abs().max().item<double>(), 1e-12) << "a mechanism without the gate";
  }
}

// The factor of a query with n candidates by the papers' formulae; x is its row of the layer's input.
at::Tensor factor_of(const Attention& attention, int64_t head, int64_t n, const at::Tensor& x) {
  const auto all = attention.named_parameters();
  const double candidates = static_cast<double>(n);
  if (const at::Tensor* weight = all.find("scale.weight")) return (*weight)[head] * std::log(candidates);
  const at::Tensor base = torch::softplus(all["scale.base.weight"][head].dot(x));
  const at::Tensor power = 2 * torch::tanh(all["scale.power.weight"][head].dot(x));
  return 1 + base * torch::exp(power * std::log(std::log(candidates + 1)));
}

// Keys that the definition of the pairs lets each query of a sequence of `keys` see.
int64_t counted(const AttentionSpec& spec, int64_t query, int64_t keys, uint64_t stream) {
  const Row row{.query = query, .keys = keys, .causal = true, .stream = stream};
  int64_t n = 0;
  for (int64_t key = 0; key < keys; ++key) n += contains(spec.pairs(), row, key) ? 1 : 0;
  return n;
}

TEST(Heads, ScaledQueriesAreThoseOfThePapers) {
  const torch::NoGradGuard guard;
  for (const char* text : {"scaled", "window(3)|global(1)+topk(2)+scaled", "random(3)|window(2)+scaled",
                           "entmax(1.5)+scaled", "dilated(3,2)+sparsemax+scaled", "local(4)+sink+scaled"}) {
    SCOPED_TRACE(text);
    const LayerSpec spec = resolve(parse_layer_spec(text), 3);
    const AttentionPlace place{.width = 12, .heads = 3, .kind = AttentionKind::kCausal, .layer = 2, .seed = 5};
    Attention attention(place, {spec, spec}, InitScope(3));
    attention.to(at::kDouble);
    perturb(attention);
    const at::Tensor x = torch::randn({9, 12}, at::kDouble),
                     offsets = torch::tensor({int64_t{0}, int64_t{5}, int64_t{9}});
    const at::Tensor positions = torch::tensor(std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3});
    Projected projected = attention.project(x, positions);
    const at::Tensor found = attention.attend(projected, {offsets, offsets}, {}, {});
    at::Tensor q = projected.q.clone();
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t head = 0; head < 3; ++head) {
        const int64_t first = t < 5 ? 0 : 5, keys = t < 5 ? 5 : 4;
        const int64_t n = counted(spec.front().spec, t - first, keys, kernels::pattern_stream(5, 2, head));
        q[t][head].mul_(factor_of(attention, head, n, x[t]));
      }
    }
    ops::AttentionOptions options = attention.options();
    options.q_offsets = offsets, options.k_offsets = offsets;
    const at::Tensor mixed =
        ops::attention(q, projected.k, projected.v, resolved_layer(without_layer_stages(spec), 3), options);
    const auto out = attention.named_parameters();
    const at::Tensor expected = torch::addmm(out["out.bias"], mixed.reshape({9, 12}), out["out.weight"].t());
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-12);
  }
}

TEST(Heads, ScaledQueriesLeaveTheTermsByDistanceAlone) {
  const torch::NoGradGuard guard;
  DecoderConfig config = tiny_decoder("full+scaled");
  config.transformer_positions = "alibi";
  config.dec_depth = 1;
  Model model = make(config);
  DecoderConfig plain = config;
  plain.attention = "full";
  Model without = make(plain);
  auto other = without->named_parameters();
  for (auto& parameter : model->named_parameters()) {
    if (parameter.key().ends_with("scale.weight"))
      parameter.value().fill_(1 / std::log(2.0));
    else
      other[parameter.key()].copy_(parameter.value());
  }
  const at::Tensor tokens = torch::tensor({int64_t{3}, int64_t{5}}), offsets = torch::tensor({int64_t{0}, int64_t{2}});
  // The factor of the second of two tokens is 1, and the first has one candidate.
  EXPECT_LT((model->decode({tokens, offsets}, {}) - without->decode({tokens, offsets}, {})).abs().max().item<double>(),
            1e-12);
}

TEST(Heads, AScaleBelowZeroKeepsTheOrderOfScores) {
  const torch::NoGradGuard guard;
  Model model = make(gated("topk(1)+scaled")), least = make(gated("topk(1)+scaled"));
  const auto set = [](Model& of, double value) {
    for (auto& parameter : of->named_parameters())
      if (parameter.key().ends_with("scale.weight")) parameter.value().fill_(value);
  };
  const Packed text = random_batch({7, 3}, 17, 4);
  set(model, -2), set(least, 1e-3);
  EXPECT_TRUE(model->decode({text.tokens, text.offsets}, {}).equal(least->decode({text.tokens, text.offsets}, {})));
}

TEST(Heads, ScalesStartNearOne) {
  Model model(gated("1*scaled;2*entmax(1.5)+scaled"), 3, MediaInput{});
  const auto all = model->named_parameters();
  const at::Tensor weight = all["layers.0.self_attention.scale.weight"];
  EXPECT_EQ(weight.sizes(), at::IntArrayRef({3}));
  EXPECT_LT((weight - 1).abs().max().item<double>(), 0.05);
  EXPECT_GT((weight - 1).abs().min().item<double>(), 0);
  for (const char* name : {"base", "power"})
    EXPECT_EQ(all[std::string("layers.0.self_attention.scale.") + name + ".weight"].sizes(), at::IntArrayRef({3, 12}));
}

TEST(Heads, StepsAndMemoryGiveTheFullPass) {
  std::vector<DecoderConfig> configs = decoders();
  for (const char* attention : {"window(4)+gate", "topk(3)+rmsnorm+gate(head)", "window(4)|random(2)+scaled+gate",
                                "1*local(5)+scaled;2*topk(3)+entmax(1.5)+scaled"})
    configs.push_back(gated(attention));
  for (const DecoderConfig& config : configs) {
    Model model = make(config);
    const Packed text = random_batch({9}, 17, 2);
    const torch::NoGradGuard guard;
    for (auto& parameter : model->named_parameters())
      if (parameter.key().ends_with("_norm.weight")) parameter.value().uniform_(0.5, 1.5);
    const at::Tensor whole = model->decode({text.tokens, text.offsets}, {});
    auto state = model->start(1, model->pack());
    for (int64_t t = 0; t < 9; ++t)
      EXPECT_LT((state->step(text.tokens.narrow(0, t, 1))[0] - whole[t]).abs().max().item<double>(), 1e-11);
    const auto pass = [&](int64_t first, int64_t count, Memory memory) {
      auto own = std::make_shared<MemoryPass>(std::move(memory), 9);
      const at::Tensor hidden =
          model->decode({text.tokens.narrow(0, first, count), torch::tensor({int64_t{0}, count}), {}, {}, own}, {});
      EXPECT_LT((hidden - whole.narrow(0, first, count)).abs().max().item<double>(), 1e-11);
      return own->take();
    };
    pass(5, 4, pass(0, 5, Memory::none(1)));
  }
}

TEST(Heads, NormsTakeAwayTheScaleOfQueriesAndKeys) {
  const DecoderConfig config = decoder(10, "rms");
  Model model = make(config);
  const Packed text = random_batch({7, 3}, 17, 4);
  const torch::NoGradGuard guard;
  const at::Tensor before = model->decode({text.tokens, text.offsets}, {});
  auto parameters = model->named_parameters();
  const int64_t rows = 10 * (config.transformer_heads + 1);
  for (const char* part : {"weight", "bias"})
    parameters[std::string("layers.0.self_attention.qkv.") + part].narrow(0, 0, rows).mul_(3);
  EXPECT_LT((model->decode({text.tokens, text.offsets}, {}) - before).abs().max().item<double>(), 1e-9);
}

TEST(Heads, GradientsOfNormsAreDifferences) {
  Model model = make(decoder(10, "rms"));
  const Packed text = random_batch({7, 3}, 17, 4);
  const auto loss = [&] {
    const at::Tensor hidden = model->decode({text.tokens, text.offsets}, {.training = true});
    return ops::cross_entropy(hidden, model->output_layer(), text.tokens.roll(1), 0).loss;
  };
  loss().backward();
  for (auto& parameter : model->named_parameters()) {
    if (!parameter.key().ends_with("q_norm.weight") && !parameter.key().ends_with("k_norm.weight")) continue;
    const torch::NoGradGuard guard;
    for (int64_t i = 0; i < 10; i += 3) {
      constexpr double kStep = 1e-5;
      at::Tensor value = parameter.value()[i];
      value.add_(kStep);
      const double above = loss().item<double>();
      value.sub_(2 * kStep);
      const double below = loss().item<double>();
      value.add_(kStep);
      EXPECT_NEAR(parameter.value().grad()[i].item<double>(), (above - below) / (2 * kStep), 1e-6) << parameter.key();
    }
  }
}

}  // namespace
}  // namespace fovea::nn::testing::heads
