#include "fovea/nn/adaptive_span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fovea/nn/memory.h"
#include "fovea/nn/test_gradients.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn {
namespace {

using namespace testing;

double greatest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

// One attention of heads that all have a span, and what it reads: q, k, v [T, H, D], table [L, D], share [H].
struct SpanCase {
  int64_t tokens, limit, ramp, k;  // k: of topk, 0: none
  std::vector<double> shares;
  int64_t head_dim = 5;
  std::string text() const { return cat("span(", limit, ",", ramp, ")", k > 0 ? cat("+topk(", k, ")") : ""); }
  int64_t heads() const { return std::ssize(shares); }
};

struct SpanValues {
  at::Tensor q, k, v, table, share;
  std::vector<at::Tensor*> all() { return {&q, &k, &v, &table, &share}; }
};

SpanValues values_of(const SpanCase& c, uint64_t seed) {
  const auto random = [&](at::IntArrayRef shape) { return random_like(torch::empty(shape, at::kDouble), ++seed); };
  const std::vector<int64_t> shape = {c.tokens, c.heads(), c.head_dim};
  return {random(shape), random(shape), random(shape), random({c.limit, c.head_dim}),
          torch::tensor(c.shares, at::kDouble)};
}

// By the definition alone, in loops over tokens, heads and distances: section 5 of the mechanisms. `cold`: tokens
// before the first have zeros as keys and values.
at::Tensor by_definition(const SpanCase& c, const SpanValues& x, bool cold = false) {
  at::Tensor out = torch::zeros_like(x.q);
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  for (int64_t h = 0; h < c.heads(); ++h) {
    const double length = x.share[h].item<double>() * static_cast<double>(c.limit);
    const int64_t used = std::min(static_cast<int64_t>(std::ceil(length)) + c.ramp, c.limit);
    const int64_t row = c.limit - std::min(c.limit - 1, c.limit - used) / 64 * 64;
    for (int64_t i = 0; i < c.tokens; ++i) {
      std::vector<double> scores, masks;
      std::vector<int64_t> keys;
      for (int64_t t = 1; t <= row && (cold || i - t >= 0); ++t) {
        const at::Tensor place = x.table[c.limit - t];
        const at::Tensor key = i - t >= 0 ? x.k[i - t][h] + place : place;
        scores.push_back(scale * x.q[i][h].dot(key).item<double>());
        masks.push_back(std::clamp((length - static_cast<double>(t - 1)) / static_cast<double>(c.ramp) + 1, 0.0, 1.0));
        keys.push_back(i - t);
      }
      double least = -1e300;
      if (c.k > 0 && std::ssize(scores) > c.k) {
        std::vector<double> sorted = scores;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        least = sorted[static_cast<size_t>(c.k) - 1];
      }
      double total = 0;
      at::Tensor sum = torch::zeros({c.head_dim}, at::kDouble);
      for (size_t j = 0; j < keys.size(); ++j) {
        if (scores[j] < least) continue;
        const double weight = masks[j] * std::exp(scores[j]);
        total += weight;
        if (keys[j] >= 0) sum += weight * x.v[keys[j]][h];
      }
      if (total > 0) out[i][h] = sum / total;
    }
  }
  return out;
}

// The same by the module and the operator.
struct Computed {
  explicit Computed(const SpanCase& c, const SpanValues& x, at::ScalarType type = at::kDouble) {
    const LayerSpec spec = resolve(parse_layer_spec(c.text()), c.heads());
    SpanScheme scheme;
    scheme.distances = x.table.to(type).clone();
    spans = std::make_shared<AdaptiveSpans>(spec, scheme);
    spans->to(type == at::kDouble ? at::kDouble : at::kFloat);
    {
      const torch::NoGradGuard guard;
      spans->parameters()[0].copy_(x.share);
    }
    tables = spans->tables(spec);
    q = x.q.to(type).clone(), k = x.k.to(type).clone(), v = x.v.to(type).clone(), table = scheme.distances;
    for (at::Tensor* tensor : {&q, &k, &v}) tensor->requires_grad_();
    scheme.distances.requires_grad_();
    options.kind = AttentionKind::kCausal;
    options.q_offsets = torch::tensor({int64_t{0}, c.tokens});
    options.offsets = spans->terms(q, tables);
    out = ops::attention(q, k, v, tables.mechanism, options);
  }
  at::Tensor share() const { return spans->parameters()[0]; }
  std::shared_ptr<AdaptiveSpans> spans;
  AdaptiveSpans::Tables tables;
  ops::AttentionOptions options;
  at::Tensor q, k, v, table, out;
};

std::vector<SpanCase> span_cases() {
  return {{1, 3, 2, 0, {0.4}},
          {7, 1, 1, 0, {0.0, 1.0}},
          {33, 40, 7, 0, {0.0, 0.31, 1.0}},
          {33, 40, 7, 5, {0.0, 0.31, 1.0}},
          {90, 150, 16, 0, {0.013, 0.52, 0.27}},
          {90, 150, 16, 8, {0.013, 0.52, 0.27}},
          {21, 9, 30, 3, {0.6, 0.2}},  // a ramp that is longer than the limit
          {140, 130, 3, 4, {0.02, 0.9}}};
}

TEST(AdaptiveSpan, IsItsDefinition) {
  uint64_t seed = 5;
  for (const SpanCase& c : span_cases()) {
    SCOPED_TRACE(cat(c.text(), " of ", c.tokens));
    const SpanValues x = values_of(c, seed += 10);
    const at::Tensor expected = by_definition(c, x);
    // Sums of up to 150 numbers near 1 in double.
    EXPECT_LT(greatest_difference(Computed(c, x).out, expected), 1e-12);
    // Of the fast kernels, in float: scores near 3 with an error near 1e-6.
    const SpanValues narrow = {x.q.to(at::kFloat), x.k.to(at::kFloat), x.v.to(at::kFloat), x.table.to(at::kFloat),
                               x.share};
    const SpanValues rounded = {narrow.q.to(at::kDouble), narrow.k.to(at::kDouble), narrow.v.to(at::kDouble),
                                narrow.table.to(at::kDouble), x.share};
    EXPECT_LT(greatest_difference(Computed(c, narrow, at::kFloat).out, by_definition(c, rounded)), 2e-5);
    EXPECT_EQ(expected[0].abs().max().item<double>(), 0) << "no token lies before the first";
  }
}

TEST(AdaptiveSpan, HasTheGradientsOfItsDefinition) {
  uint64_t seed = 5;
  for (const SpanCase& c : span_cases()) {
    if (c.tokens > 40) continue;
    SCOPED_TRACE(cat(c.text(), " of ", c.tokens));
    SpanValues x = values_of(c, seed += 10);
    // At 0 and 1 the mask has a kink, where a difference on both sides is no derivative.
    x.share = x.share.clamp(0.07, 0.93) + 0.00123;
    const at::Tensor grad = random_like(x.q, 99);
    const auto of = [&](at::ScalarType type) {
      Computed computed(c, x, type);
      computed.out.backward(grad.to(type));
      std::vector<at::Tensor> all;
      for (const at::Tensor& tensor : {computed.q, computed.k, computed.v, computed.table, computed.share()})
        all.push_back(tensor.grad().defined() ? tensor.grad().to(at::kDouble) : torch::zeros_like(tensor, at::kDouble));
      return all;
    };
    const std::vector<at::Tensor> exact = of(at::kDouble), fast = of(at::kFloat);
    for (size_t i = 0; i < exact.size(); ++i) {
      at::Tensor& value = *x.all()[i];
      const at::Tensor direction = random_like(value, 200 + i);
      // Small enough to change no selection and to pass no kink.
      const double step = i == 4 ? 1e-7 : 1e-6;
      const at::Tensor before = value;
      value = before + direction * step;
      const double above = (by_definition(c, x) * grad).sum().item<double>();
      value = before - direction * step;
      const double below = (by_definition(c, x) * grad).sum().item<double>();
      value = before;
      const double difference = (above - below) / (2 * step);
      // Rounding of sums near 100 by the step: 100 2^-53 / 1e-7.
      EXPECT_NEAR((exact[i] * direction).sum().item<double>(), difference, 1e-6 * (1 + std::abs(difference)))
          << "input " << i;
      EXPECT_LT(greatest_difference(fast[i], exact[i]), 2e-4 * (1 + exact[i].abs().max().item<double>()))
          << "input " << i;
    }
  }
}

// A span of the whole limit is softmax over the last L tokens with the table, as the pattern alone computes it.
TEST(AdaptiveSpan, AFullSpanIsSoftmaxOverTheLastTokens) {
  const SpanCase c = {50, 20, 1, 0, {1.0, 1.0, 1.0}};
  const SpanValues x = values_of(c, 3);
  const Computed computed(c, x);
  EXPECT_EQ(computed.tables.mechanism, "3*span(20,1)");
  ops::AttentionOptions plain = computed.options;
  plain.offsets.by_head.reset();
  plain.offsets.for_spans = false;
  const at::Tensor others = ops::attention(computed.q, computed.k, computed.v, "local(21)&others", plain);
  EXPECT_LT(greatest_difference(computed.out, others), 1e-13);
}

// Heads that share a call with others, each cut to its own reach, and heads in calls of their own.
TEST(AdaptiveSpan, GroupsOfHeadsChangeNothing) {
  for (const int64_t k : {0, 4}) {
    const SpanCase c = {300, 256, 16, k, {0.05, 0.05, 0.6, 0.05, 1.0}};
    const SpanValues x = values_of(c, 17);
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const Computed all(c, x, type);
      const std::string stage = k > 0 ? "+topk(4)" : "";
      EXPECT_EQ(all.tables.mechanism, cat("2*span(64,16)", stage, ";1*span(192,16)", stage, ";1*span(64,16)", stage,
                                          ";1*span(256,16)", stage));
      for (int64_t h = 0; h < c.heads(); ++h) {
        SpanCase one = c;
        one.shares = {c.shares[static_cast<size_t>(h)]};
        const SpanValues own = {x.q.narrow(1, h, 1), x.k.narrow(1, h, 1), x.v.narrow(1, h, 1), x.table,
                                x.share.narrow(0, h, 1)};
        const at::Tensor alone = Computed(one, own, type).out, together = all.out.narrow(1, h, 1);
        // The fast kernels give the same bits; the reference sums in an order of its own choice.
        if (type == at::kFloat) {
          EXPECT_TRUE(alone.equal(together)) << "head " << h;
        }
        EXPECT_LT(greatest_difference(alone, together), 1e-13) << "head " << h;
      }
      if (k > 0) continue;
      // Without a selection, keys behind the reach have a mask of 0, so a head sees them in vain.
      const at::Tensor uncut = ops::attention(all.q, all.k, all.v, "span(256,16)", all.options);
      EXPECT_LT(greatest_difference(uncut, all.out), type == at::kDouble ? 1e-13 : 1e-5);
    }
  }
}

TEST(AdaptiveSpan, MasksAreZeroWithoutAGradientBehindTheRamp) {
  const SpanCase c = {100, 80, 4, 0, {0.25}};
  const SpanValues x = values_of(c, 23);
  Computed computed(c, x);
  const at::Tensor& by_head = computed.tables.by_head;  // distances 80 ... 1, cut to 80 - 0
  const int64_t reach = -computed.tables.by_head_first;
  EXPECT_EQ(reach, 80);
  EXPECT_EQ(by_head.isinf().sum().item<int64_t>(), 80 - 24) << "the span of 20 and its ramp of 4";
  EXPECT_EQ((by_head == 0).sum().item<int64_t>(), 21) << "t - 1 up to the span";
  computed.out.sum().backward();
  EXPECT_TRUE(computed.share().grad().isfinite().all().item<bool>());
  EXPECT_GT(computed.share().grad().abs().item<double>(), 0);
}

DecoderConfig span_config(const std::string& attention, const std::string& cold = "none") {
  DecoderConfig config = tiny_decoder(attention);
  config.transformer_positions = "none";
  config.span_start = 0.3;
  config.span_cold_cache = cold;
  return config;
}

// make() moves every parameter, and so the spans, which are some value in [0, 1] in training.
DecoderOnly span_model(const DecoderConfig& config, at::ScalarType type) {
  DecoderOnly model = make(config, type);
  const torch::NoGradGuard guard;
  for (auto& item : model->named_parameters())
    if (item.key().find("span") != std::string::npos) item.value().clamp_(0.02, 0.98);
  return model;
}

constexpr const char* kSpecs[] = {"span(9,3)", "span(9,3)+topk(2)", "1*span(4,2);2*topk(3)",
                                  "1*span(70,2)+topk(3);2*span(6,1)"};

TEST(AdaptiveSpan, StepByStepIsTheFullPass) {
  for (const std::string attention : kSpecs) {
    for (const std::string cold : {"none", "zeros"}) {
      if (cold == "zeros" && attention.find(";2*topk") != std::string::npos) continue;
      for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
        SCOPED_TRACE(cat(attention, " ", cold, " ", at::toString(type)));
        DecoderConfig config = span_config(attention, cold);
        config.transformer_positions = "rotary";
        DecoderOnly model = span_model(config, type);
        for (const StepCache::Rows kind : {StepCache::Rows::kApart, StepCache::Rows::kShared}) {
          std::vector<std::vector<int64_t>> rows = {{3, 1, 4}, {5}, {9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}};
          auto state = model->start(3, model->pack(), kind);
          const Packed batch = packed(rows);
          const double bound = type == at::kDouble ? 1e-11 : 1e-4;
          EXPECT_LT(greatest_difference(model->prefill(*state, batch.tokens, batch.offsets), last_states(model, rows)),
                    bound);
          for (int64_t token = 0; token < 4; ++token) {
            for (std::vector<int64_t>& row : rows) row.push_back(token);
            const at::Tensor hidden = model->step(*state, torch::full({3}, token, at::kLong));
            EXPECT_LT(greatest_difference(hidden, last_states(model, rows)), bound) << "token " << token;
          }
        }
      }
    }
  }
}

TEST(AdaptiveSpan, LaterTokensChangeNothingBefore) {
  for (const std::string attention : kSpecs) {
    SCOPED_TRACE(attention);
    DecoderOnly model = span_model(span_config(attention), at::kFloat);
    const torch::NoGradGuard guard;
    at::Tensor tokens = torch::arange(14, at::kLong);
    const at::Tensor offsets = torch::tensor({int64_t{0}, int64_t{14}});
    const at::Tensor before = model->forward(tokens, offsets, {});
    tokens[9] = 16;
    const at::Tensor after = model->forward(tokens, offsets, {});
    EXPECT_TRUE(after.slice(0, 0, 9).equal(before.slice(0, 0, 9)));
    EXPECT_FALSE(after[9].equal(before[9]));
  }
}

// A memory of the limit is all that a token of any layer sees, so segments give what the whole text gives.
TEST(AdaptiveSpan, SegmentsWithMemoryAreTheWholeText) {
  for (const char* attention : {"span(9,3)", "span(9,3)+topk(2)"}) {
    for (const char* cold : {"none", "zeros"}) {
      SCOPED_TRACE(cat(attention, " ", cold));
      DecoderOnly model = span_model(span_config(attention, cold), at::kDouble);
      const torch::NoGradGuard guard;
      const Packed text = random_batch({31}, 17, 4);
      const at::Tensor whole = model->forward(text.tokens, text.offsets, {});
      std::vector<at::Tensor> parts;
      Memory memory = Memory::none(1);
      for (int64_t begin = 0; begin < 31; begin += 4) {
        const int64_t count = std::min<int64_t>(4, 31 - begin);
        const auto pass = std::make_shared<MemoryPass>(std::move(memory), 9);
        parts.push_back(
            model->forward(text.tokens.narrow(0, begin, count), torch::tensor({int64_t{0}, count}), {}, pass));
        memory = pass->take();
      }
      EXPECT_LT(greatest_difference(torch::cat(parts), whole), 1e-11);
    }
  }
}

// The published code begins with a cache of zeros, whose scores are those of the table and whose values are zero.
TEST(AdaptiveSpan, AColdCacheOfZerosDampsTheBeginning) {
  for (const int64_t k : {0, 3}) {
    const SpanCase c = {12, 10, 3, k, {0.5, 0.1}};
    const SpanValues x = values_of(c, 31);
    Computed computed(c, x);
    const at::Tensor begins = torch::tensor({int64_t{0}}), lengths = torch::tensor({c.tokens});
    const ColdKeys cold = with_cold_keys({computed.k, computed.v, begins, lengths, {}}, *computed.options.q_offsets,
                                         -computed.tables.by_head_first);
    EXPECT_EQ(cold.k.size(0), c.tokens + c.limit);
    computed.options.k_offsets = torch::tensor({int64_t{0}, cold.k.size(0)});
    const at::Tensor out = ops::attention(computed.q, cold.k, cold.v, computed.tables.mechanism, computed.options);
    EXPECT_LT(greatest_difference(out, by_definition(c, x, true)), 1e-12);
    EXPECT_GT(greatest_difference(out, by_definition(c, x, false)), 1e-3);
  }
}

TEST(AdaptiveSpan, ColdKeysOfRowsThatShareTokens) {
  const at::Tensor k = torch::arange(1, 6, at::kDouble).view({5, 1, 1});
  const ColdKeys cold =
      with_cold_keys({k, -k, torch::tensor({int64_t{0}, int64_t{3}}), torch::tensor({int64_t{2}, int64_t{3}}),
                      torch::tensor({int64_t{4}, int64_t{0}, int64_t{9}, int64_t{1}, int64_t{2}, int64_t{3}})},
                     torch::tensor({int64_t{0}, int64_t{1}, int64_t{3}}), 2);
  const std::vector<double> expected = {0, 5, 1, 0, 2, 3, 4};
  EXPECT_TRUE(cold.k.flatten().equal(torch::tensor(expected, at::kDouble))) << cold.k;
  EXPECT_TRUE(cold.v.equal(-cold.k));
  EXPECT_TRUE(cold.begins.equal(torch::tensor({int64_t{0}, int64_t{3}})));
  EXPECT_TRUE(cold.lengths.equal(torch::tensor({int64_t{3}, int64_t{4}})));
}

TEST(AdaptiveSpan, ModelsHaveTheGradientsOfFiniteDifferences) {
  for (const char* attention : {"span(6,3)", "1*span(4,2)+topk(2);2*window(3)"}) {
    SCOPED_TRACE(attention);
    DecoderOnly model = span_model(span_config(attention), at::kDouble);
    const Packed text = random_batch({9, 1, 6}, 17, 8);
    check_gradients(*model, [&] { return loss_of(model, text, {}); });
  }
}

TEST(AdaptiveSpan, RecomputedGradientsAreTheSame) {
  DecoderOnly model = span_model(span_config("1*span(6,3);1*span(6,3)+topk(2);1*span(4,1)"), at::kFloat);
  const Packed text = random_batch({9, 1, 16}, 17, 8);
  const auto gradients = [&](bool recompute) {
    PassExtras extras;
    ForwardContext context{.training = true, .dropout_seed = 3, .recompute = recompute};
    context.extras = &extras;
    const at::Tensor loss = loss_of(model, text, context);
    EXPECT_EQ(extras.notes().size(), 2U);
    return gradients_of(*model, loss + 1e3 * extras.loss());
  };
  const auto plain = gradients(false), again = gradients(true);
  for (const auto& [name, gradient] : plain) EXPECT_TRUE(again.at(name).equal(gradient)) << name;
}

TEST(AdaptiveSpan, ReportsSpansAndTheLossThatShortensThem) {
  DecoderConfig config = span_config("2*span(10,3);1*full");
  config.attention_layers = {"decoder.2=span(40,3)"};
  config.span_loss = 0.5;
  DecoderOnly model(config, 1);
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
    model->forward(text.tokens, text.offsets, context);
    return extras;
  };
  const PassExtras training = extras_of(true), evaluation = extras_of(false);
  std::map<std::string, double> notes;
  for (const auto& [name, value] : training.notes()) notes[std::string(name)] = value;
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NEAR(notes["span-mean"], (2 + 4 + 20 + 0 + 4) / 5.0, 1e-6);
  EXPECT_NEAR(notes["span-largest"], 20, 1e-6);
  // In each layer the mean of its heads' spans: 3, and 8.
  EXPECT_NEAR(training.loss().item<double>(), 0.5 * (3 + 8), 1e-6);
  EXPECT_FALSE(evaluation.loss().defined());
}

TEST(AdaptiveSpan, NamesAndRulesOfParameters) {
  DecoderConfig config = span_config("2*span(8,3);1*full");
  config.attention_layers = {"decoder.2=span(20,3)"};
  DecoderOnly model(config, 1);
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
  EXPECT_TRUE(span_rules(*DecoderOnly(tiny_decoder(), 1)).empty());
}

TEST(AdaptiveSpan, AnotherMechanismNeedsTheTrainedSpans) {
  DecoderOnly model = span_model(span_config("2*span(8,3);1*full"), at::kFloat);
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
}  // namespace fovea::nn
