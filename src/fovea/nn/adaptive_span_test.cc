#include "fovea/nn/adaptive_span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "fovea/nn/test_gradients.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::adaptive_span_test {
namespace {

using namespace testing;

double greatest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

// One attention of heads that all have a span, with its inputs: q, k, v [T, H, D], table [L, D], share [H].
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

// Computes from the definition alone, in loops over tokens, heads and distances: section 5 of the mechanisms. `cold`:
// tokens before the first have zeros as keys and values.
at::Tensor by_definition(const SpanCase& c, const SpanValues& x, bool cold = false) {
  at::Tensor out = torch::zeros_like(x.q);
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  for (int64_t h = 0; h < c.heads(); ++h) {
    const double length = x.share[h].item<double>() * static_cast<double>(c.limit);
    for (int64_t i = 0; i < c.tokens; ++i) {
      std::vector<double> weights;  // of the keys at distance 1, 2 ... limit
      for (int64_t t = 1; t <= c.limit && (cold || i - t >= 0); ++t) {
        const at::Tensor place = x.table[c.limit - t];
        const at::Tensor key = i - t >= 0 ? x.k[i - t][h] + place : place;
        const double ramp = (length - static_cast<double>(t - 1)) / static_cast<double>(c.ramp) + 1;
        weights.push_back(std::clamp(ramp, 0.0, 1.0) * std::exp(scale * x.q[i][h].dot(key).item<double>()));
      }
      double least = 0;
      if (c.k > 0 && std::ssize(weights) > c.k) {
        std::vector<double> sorted = weights;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        least = sorted[static_cast<size_t>(c.k) - 1];
      }
      double total = 0;
      at::Tensor sum = torch::zeros({c.head_dim}, at::kDouble);
      for (int64_t t = 1; t <= std::ssize(weights); ++t) {
        const double weight = weights[static_cast<size_t>(t) - 1];
        if (weight < least) continue;
        total += weight;
        if (i - t >= 0) sum += weight * x.v[i - t][h];
      }
      if (total > 0) out[i][h] = sum / total;
    }
  }
  return out;
}

// The result of the module and the operator.
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
    out = ops::attention(q, k, v, tables.layer, options);
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
          {140, 130, 3, 4, {0.02, 0.9}},
          {33, 80, 7, 2, {0.0, 0.31, 1.0}}};
}

TEST(AdaptiveSpan, IsItsDefinition) {
  uint64_t seed = 5;
  for (const SpanCase& c : span_cases()) {
    SCOPED_TRACE(cat(c.text(), " of ", c.tokens));
    const SpanValues x = values_of(c, seed += 10);
    const at::Tensor expected = by_definition(c, x);
    // Sums of up to 150 numbers near 1 in double.
    EXPECT_LT(greatest_difference(Computed(c, x).out, expected), 1e-12);
    // The fast kernels compute in float: scores near 3 with an error near 1e-6.
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
    // At 0 and 1 the mask has a kink, where a difference on both sides is not a derivative.
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
  EXPECT_EQ(print(computed.tables.mechanism), "3*span(20,1)");
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
      EXPECT_EQ(print(all.tables.mechanism), cat("2*span(64,16)", stage, ";1*span(192,16)", stage, ";1*span(64,16)",
                                                 stage, ";1*span(256,16)", stage));
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

// The mask acts before top-k, so keys behind a head's span never take a place from keys within it: a head whose span
// and ramp have no more than k keys computes what it computes without top-k, and every token but the first has a key.
TEST(AdaptiveSpan, KeysBehindTheSpanDoNotCompete) {
  SpanCase c = {200, 256, 4, 8, {0.015, 1.0}};  // 3.84 tokens and a ramp of 4: distances 1 ... 8
  const SpanValues x = values_of(c, 41);
  const Computed selected(c, x);
  c.k = 0;
  const Computed all(c, x);
  EXPECT_EQ(print(selected.tables.mechanism), "1*span(64,4)+topk(8);1*span(256,4)+topk(8)");
  EXPECT_LT(greatest_difference(selected.out.narrow(1, 0, 1), all.out.narrow(1, 0, 1)), 1e-13);
  EXPECT_GT(greatest_difference(selected.out.narrow(1, 1, 1), all.out.narrow(1, 1, 1)), 1e-3);
  EXPECT_FALSE((selected.out.slice(0, 1) == 0).all(2).any().item<bool>());
}

// Top-k compares the score with the ramp's term. A key in the ramp with the greater score loses to a key
// within the span.
TEST(AdaptiveSpan, TheRampTakesPartInTheSelection) {
  const SpanCase c = {3, 4, 2, 1, {0.0}, 1};  // the masks of distances 1, 2, 3 are 1, 1/2, 0
  SpanValues x = values_of(c, 1);
  x.q = torch::ones({3, 1, 1}, at::kDouble), x.table = torch::zeros({4, 1}, at::kDouble);
  x.v = torch::tensor({10.0, 20.0, 30.0}, at::kDouble).view({3, 1, 1});
  const auto third = [&](double farther, double nearer) {
    x.k = torch::tensor({farther, nearer, 0.0}, at::kDouble).view({3, 1, 1});
    const double out = Computed(c, x).out[2][0][0].item<double>();
    EXPECT_EQ(out, by_definition(c, x)[2][0][0].item<double>());
    return out;
  };
  EXPECT_EQ(third(0.5, 0.0), 20) << "exp(0.5) / 2 is less than 1";
  EXPECT_EQ(third(0.9, 0.0), 10) << "exp(0.9) / 2 is more than 1";
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
    const at::Tensor out = ops::attention(computed.q, cold.k, cold.v, computed.tables.layer, computed.options);
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

}  // namespace
}  // namespace fovea::nn::adaptive_span_test
