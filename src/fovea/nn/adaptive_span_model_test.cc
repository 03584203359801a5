#include "fovea/nn/adaptive_span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/nn/memory.h"
#include "fovea/nn/test_gradients.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::adaptive_span_model_test {
namespace {

using namespace testing;

DecoderConfig span_config(const std::string& attention, const std::string& cold = "none") {
  DecoderConfig config = tiny_decoder(attention);
  config.transformer_positions = "none";
  config.span_start = 0.3;
  config.span_cold_cache = cold;
  return config;
}

// make() moves every parameter, and so the spans, which are some value in [0, 1] in training.
Model span_model(const DecoderConfig& config, at::ScalarType type) {
  Model model = make(config, type);
  const torch::NoGradGuard guard;
  for (auto& item : model->named_parameters())
    if (item.key().find("span") != std::string::npos) item.value().clamp_(0.02, 0.98);
  return model;
}

constexpr const char* kSpecs[] = {"span(9,3)", "span(9,3)+topk(2)", "1*span(4,2);2*topk(3)",
                                  "1*span(70,2)+topk(3);2*span(6,1)", "span(9,3)+softcap(0.5)"};

TEST(AdaptiveSpan, StepByStepIsTheFullPass) {
  for (const std::string attention : kSpecs) {
    for (const std::string option : {"none", "zeros"}) {
      if (option == "zeros" && attention.find(";2*topk") != std::string::npos) continue;
      for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
        SCOPED_TRACE(cat(attention, " ", option, " ", at::toString(type)));
        DecoderConfig config = span_config(attention, option);
        config.transformer_positions = "rotary";
        Model model = span_model(config, type);
        expect_steps_as_full_passes(model, type);
      }
    }
  }
}

// A text that is longer than the shortest cut, 64 keys.
TEST(AdaptiveSpan, LongTextsGenerateAsTheirFullPass) {
  Model model = make(span_config("1*span(160,2)+topk(2);2*span(160,2)"), at::kDouble);
  {
    const torch::NoGradGuard guard;
    for (auto& item : model->named_parameters())
      if (item.key().ends_with("span.share")) item.value().copy_(torch::tensor({0.02, 0.1, 0.95}));
  }
  std::vector<std::vector<int64_t>> rows(1);
  for (int64_t i = 0; i < 130; ++i) rows[0].push_back(i * i % 17);
  auto state = model->start(1, model->pack(), StepRows::kApart);
  const Packed batch = packed(rows);
  EXPECT_LT(greatest_difference(state->prefill(batch.tokens, batch.offsets), last_states(model, rows)), 1e-11);
  for (int64_t token = 0; token < 3; ++token) {
    rows[0].push_back(token);
    const at::Tensor step = state->step(torch::full({1}, token, at::kLong));
    EXPECT_LT(greatest_difference(step, last_states(model, rows)), 1e-11) << token;
  }
}

TEST(AdaptiveSpan, LaterTokensChangeNothingBefore) {
  for (const std::string attention : kSpecs) {
    SCOPED_TRACE(attention);
    Model model = span_model(span_config(attention), at::kFloat);
    const torch::NoGradGuard guard;
    at::Tensor tokens = torch::arange(14, at::kLong);
    const at::Tensor offsets = torch::tensor({int64_t{0}, int64_t{14}});
    const at::Tensor before = model->decode({tokens, offsets}, {});
    tokens[9] = 16;
    const at::Tensor after = model->decode({tokens, offsets}, {});
    EXPECT_TRUE(after.slice(0, 0, 9).equal(before.slice(0, 0, 9)));
    EXPECT_FALSE(after[9].equal(before[9]));
  }
}

// A memory of the limit is all that a token of any layer sees, so segments give what the whole text gives.
TEST(AdaptiveSpan, SegmentsWithMemoryAreTheWholeText) {
  for (const char* attention : {"span(9,3)", "span(9,3)+topk(2)"}) {
    for (const std::string option : {"none", "zeros"}) {
      SCOPED_TRACE(cat(attention, " ", option));
      DecoderConfig config = span_config(attention, option);
      Model model = span_model(config, at::kDouble);
      const torch::NoGradGuard guard;
      const Packed text = random_batch({31}, 17, 4);
      const at::Tensor whole = model->decode({text.tokens, text.offsets}, {});
      std::vector<at::Tensor> parts;
      Memory memory = Memory::none(1);
      for (int64_t begin = 0; begin < 31; begin += 4) {
        const int64_t count = std::min<int64_t>(4, 31 - begin);
        const auto pass = std::make_shared<MemoryPass>(std::move(memory), 9);
        parts.push_back(model->decode({.tokens = text.tokens.narrow(0, begin, count),
                                       .offsets = torch::tensor({int64_t{0}, count}),
                                       .memory = pass},
                                      {}));
        memory = pass->take();
      }
      EXPECT_LT(greatest_difference(torch::cat(parts), whole), 1e-11);
    }
  }
}

TEST(AdaptiveSpan, ModelsHaveTheGradientsOfFiniteDifferences) {
  for (const char* attention : {"span(6,3)", "1*span(4,2)+topk(2);2*window(3)", "span(70,3)+topk(2)"}) {
    SCOPED_TRACE(attention);
    DecoderConfig config = span_config(attention);
    Model model = span_model(config, at::kDouble);
    const Packed text = random_batch({9, 1, 6}, 17, 8);
    check_gradients(*model, [&] { return loss_of(model, text, {}); });
  }
}

TEST(AdaptiveSpan, RecomputedGradientsAreTheSame) {
  Model model = span_model(span_config("1*span(6,3);1*span(6,3)+topk(2);1*span(4,1)"), at::kFloat);
  const Packed text = random_batch({9, 1, 16}, 17, 8);
  const auto gradients = [&](bool recompute) {
    PassExtras extras;
    ForwardContext context{.training = true, .dropout_seed = 3, .recompute = recompute};
    context.extras = &extras;
    const at::Tensor loss = loss_of(model, text, context);
    EXPECT_EQ(extras.notes().size(), 3U);
    return gradients_of(*model, loss + 1e3 * extras.loss());
  };
  const auto plain = gradients(false), again = gradients(true);
  for (const auto& [name, gradient] : plain) EXPECT_TRUE(again.at(name).equal(gradient)) << name;
}

TEST(AdaptiveSpan, ReportsSpansAndTheLossThatShortensThem) {
  DecoderConfig config = span_config("2*span(10,3);1*full");
  config.attention_layers = {"decoder.2=span(40,3)"};
  config.span_loss = 0.5;
  Model model(config, 1);
  {
    const torch::NoGradGuard guard;
    auto parameters = model->named_parameters();
    parameters["layers.0.self_attention.span.share"].copy_(torch::tensor({0.2, 0.4}));
    parameters["layers.1.self_attention.span.share"].copy_(torch::tensor({0.5, 0.0, 0.1}));
  }
  const Packed text = random_batch({5}, 17, 8);
  const auto extras_of = [&](bool training) {
    PassExtras extras;
    ForwardContext context{.training = training};
    context.extras = &extras;
    model->decode({text.tokens, text.offsets}, context);
    return extras;
  };
  const PassExtras training = extras_of(true), evaluation = extras_of(false);
  std::map<std::string, double> notes;
  for (const auto& [name, value] : training.notes()) notes[std::string(name)] = value;
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_NEAR(notes["span-mean"], (2 + 4 + 20 + 0 + 4) / 5.0, 1e-6);
  EXPECT_NEAR(notes["span-with-ramp"], (5 + 7 + 23 + 3 + 7) / 5.0, 1e-6);
  EXPECT_NEAR(notes["span-largest"], 20, 1e-6);
  // In each layer the mean of its heads' spans: 3, and 8.
  EXPECT_NEAR(training.loss().item<double>(), 0.5 * (3 + 8), 1e-6);
  EXPECT_FALSE(evaluation.loss().defined());
}

TEST(AdaptiveSpan, NamesAndRulesOfParameters) {
  DecoderConfig config = span_config("2*span(8,3);1*full");
  config.attention_layers = {"decoder.2=span(20,3)"};
  Model model(config, 1);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    if (name.find("span") != std::string::npos || name.find("distances") != std::string::npos)
      shapes[name] = item.value().sizes().vec();
  }
  const std::map<std::string, std::vector<int64_t>> expected = {{"distances.weight", {20, 4}},
                                                                {"layers.0.self_attention.span.share", {2}},
                                                                {"layers.1.self_attention.span.share", {3}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_TRUE(model->named_parameters()["layers.0.self_attention.span.share"].equal(torch::full({2}, 0.3)));
  const ParameterRules rules = span_rules(*model);
  ASSERT_EQ(rules.size(), 2U);
  for (const auto& [name, rule] : rules) {
    EXPECT_TRUE(rule.float32 && rule.low == 0 && rule.high == 1) << name;
  }
  EXPECT_TRUE(span_rules(*Model(tiny_decoder(), 1)).empty());
}

TEST(AdaptiveSpan, AnotherMechanismNeedsTheTrainedSpans) {
  Model model = span_model(span_config("2*span(8,3);1*full"), at::kFloat);
  const auto refusal = [&](const std::string& attention) {
    try {
      model->override_attention({.attention = attention});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(
      refusal("3*span(8,3)"),
      "--attention 3*span(8,3): it needs learned spans of these heads and ramps, of these limits or longer ones (a "
      "limit may only be shortened), which this model (trained with 2*span(8,3);1*full) does not have; use a mechanism "
      "without it, or train one with it");
  EXPECT_NE(refusal("2*span(9,3);1*full"), "");
  EXPECT_NE(refusal("2*span(8,4);1*full"), "");
  for (const char* attention : {"2*span(8,3)+topk(2);1*full", "1*full;1*span(5,3);1*local(3)", "full"}) {
    EXPECT_EQ(refusal(attention), "") << attention;
    EXPECT_TRUE(last_states(model, {{1, 2, 3, 4}}).isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace fovea::nn::adaptive_span_model_test
