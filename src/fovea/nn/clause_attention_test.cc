#include "fovea/nn/clause_attention.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <memory>
#include <random>

#include "fovea/nn/attention.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/clause_mix.h"

namespace fovea::nn::clause_attention_test {
namespace {

// Sentences of 1 to `most` tokens with nested random clauses of two levels.
struct ClauseCase {
  at::Tensor offsets;
  Clauses clauses;
  int64_t tokens;

  ClauseCase(int64_t sentences, int64_t most, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<int64_t> bounds = {0}, first, second;
    for (int64_t b = 0; b < sentences; ++b) {
      const int64_t length = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
      for (int64_t i = 0; i < length; ++i) {
        const bool one = i == 0 || random() % 9 == 0, two = one || random() % 5 == 0;
        if (one) first.push_back(bounds.back() + i);
        if (two) second.push_back(bounds.back() + i);
      }
      bounds.push_back(bounds.back() + length);
    }
    tokens = bounds.back();
    first.push_back(tokens);
    second.push_back(tokens);
    offsets = index_tensor(bounds);
    clauses.offsets = {index_tensor(first), index_tensor(second)};
  }
};

struct MixInputs {
  at::Tensor q, k, v, p;
  MixInputs(int64_t tokens, int64_t heads, int64_t width, at::ScalarType type) {
    at::manual_seed(7);
    const auto options = at::TensorOptions(type);
    q = at::randn({tokens, heads, width}, options), k = at::randn({tokens, heads, width}, options);
    v = at::randn({tokens, heads, width}, options), p = at::rand({2, heads, 1}, options);
  }
  void require_gradients() {
    for (at::Tensor* x : {&q, &k, &v, &p}) x->requires_grad_(true);
  }
};

// The definition: dense weights by masks, in the type of the inputs.
at::Tensor oracle(const MixInputs& in, const ClauseCase& text) {
  const auto group_of = [&](const at::Tensor& bounds) {
    at::Tensor group = at::zeros({text.tokens}, at::kLong);
    for (int64_t c = 0; c + 1 < bounds.numel(); ++c)
      group.slice(0, bounds[c].item<int64_t>(), bounds[c + 1].item<int64_t>()).fill_(c);
    return group;
  };
  const at::Tensor scores = at::einsum("ihd,jhd->hij", {in.q, in.k}) / std::sqrt(static_cast<double>(in.q.size(2)));
  const auto weights = [&](const at::Tensor& bounds) {
    const at::Tensor group = group_of(bounds);
    return scores.masked_fill(group.unsqueeze(0) != group.unsqueeze(1), -INFINITY).softmax(-1);
  };
  const at::Tensor p1 = in.p[0].unsqueeze(-1), p2 = in.p[1].unsqueeze(-1);
  const at::Tensor mixed = (1 - p1) * weights(text.offsets) + p1 * (1 - p2) * weights(text.clauses.offsets[0]) +
                           p1 * p2 * weights(text.clauses.offsets[1]);
  return at::einsum("hij,jhd->ihd", {mixed, in.v});
}

TEST(Clauses, OfLevelsAreNestedAndEndWithTheSentences) {
  const std::vector<uint8_t> levels = {0, 2, 0, 1, 6, 3, 0, 2};
  const std::vector<int64_t> offsets = {0, 3, 3, 8};
  const Clauses clauses = clauses_of_levels(levels, offsets);
  ASSERT_EQ(clauses.offsets.size(), 6U);
  for (int64_t level = 1; level <= 6; ++level) {
    std::vector<int64_t> expected;  // the beginnings of sentences and of clauses of this level or a lower one
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t own = levels[static_cast<size_t>(i)];
      if (i == 0 || i == 3 || (own > 0 && own <= level)) expected.push_back(i);
    }
    expected.push_back(8);
    EXPECT_TRUE(clauses.of_level(level).equal(index_tensor(expected))) << level;
  }
}

LayerSpec mixture_of(int64_t heads, const char* text = "mix(full,clause(1),clause(2))") {
  return resolve(parse_layer_spec(text), heads);
}

at::Tensor attend(const MixInputs& in, const ClauseCase& text, const LayerSpec& spec) {
  return attend_to_clauses(clause_heads(spec), {in.q, in.k, in.v, text.offsets, in.p, &text.clauses}, {});
}

TEST(ClauseAttention, IsItsDefinitionForwardAndBackward) {
  for (const auto& [most, heads, width] : {std::tuple{12, 2, 8}, {40, 3, 20}, {150, 1, 64}}) {
    const ClauseCase text(5, most, 3);
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {  // parts by the operator; the kernel
      MixInputs in(text.tokens, heads, width, type), exact(text.tokens, heads, width, at::kDouble);
      exact.q = in.q.to(at::kDouble), exact.k = in.k.to(at::kDouble), exact.v = in.v.to(at::kDouble);
      exact.p = in.p.to(at::kDouble);
      in.require_gradients();
      exact.require_gradients();
      const at::Tensor out = attend(in, text, mixture_of(heads)), wanted = oracle(exact, text);
      // Sums of up to 150 products of numbers near 1 in float32; double is double.
      const double tolerance = type == at::kDouble ? 1e-12 : 2e-5;
      EXPECT_TRUE(at::allclose(out.to(at::kDouble), wanted, tolerance, tolerance)) << most << " " << type;
      const at::Tensor weight = at::randn_like(wanted);
      (out * weight.to(type)).sum().backward();
      (wanted * weight).sum().backward();
      const std::array<std::pair<at::Tensor*, at::Tensor*>, 4> pairs = {
          {{&in.q, &exact.q}, {&in.k, &exact.k}, {&in.v, &exact.v}, {&in.p, &exact.p}}};
      for (const auto& [mine, theirs] : pairs) {
        const double scale = theirs->grad().abs().max().item<double>() + 1;
        EXPECT_TRUE(at::allclose(mine->grad().to(at::kDouble), theirs->grad(), 0, tolerance * scale)) << most << type;
      }
    }
  }
}

TEST(ClauseAttention, KernelGradientsAreFiniteDifferences) {
  const ClauseCase text(3, 20, 5);
  MixInputs in(text.tokens, 2, 16, at::kFloat);
  in.require_gradients();
  const at::Tensor weight = at::randn(in.q.sizes());
  const auto loss = [&] { return (attend(in, text, mixture_of(2)) * weight).sum(at::kDouble); };
  loss().backward();
  for (at::Tensor* x : {&in.q, &in.k, &in.v, &in.p}) {
    const at::NoGradGuard guard;
    const at::Tensor direction = at::randn_like(*x), start = x->clone();
    const double step = 2e-3;  // error of order step^2 and of float32's digits over the step
    x->copy_(start + step * direction);
    const double above = loss().item<double>();
    x->copy_(start - step * direction);
    const double below = loss().item<double>();
    x->copy_(start);
    const double wanted = (x->grad() * direction).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * step), wanted, 2e-2 * (1 + std::abs(wanted)));
  }
}

TEST(ClauseAttention, OneClauseIsFullAndZeroIsFullToTheBit) {
  const ClauseCase text(6, 60, 9);
  const Clauses whole{{text.offsets, text.offsets}};
  MixInputs in(text.tokens, 4, 32, at::kFloat);
  ops::AttentionOptions options;
  options.q_offsets = options.k_offsets = text.offsets;
  const at::Tensor full = ops::attention(in.q, in.k, in.v, "full", options);
  const auto by = [&](const Clauses& clauses, const char* spec) {
    return attend_to_clauses(clause_heads(mixture_of(4, spec)), {in.q, in.k, in.v, text.offsets, in.p, &clauses}, {});
  };
  EXPECT_TRUE(at::equal(by(whole, "mix(full,clause(1),clause(2))"), full));
  EXPECT_TRUE(at::equal(by(whole, "clause(1)"), full));
  EXPECT_TRUE(at::equal(by(text.clauses, "mix(full,clause(1),clause(2),constant(0))"), full));
  EXPECT_FALSE(at::equal(by(text.clauses, "mix(full,clause(1),clause(2))"), full));
  in.p.zero_();
  EXPECT_TRUE(at::equal(by(text.clauses, "mix(full,clause(1),clause(2))"), full));
  in.p.fill_(1);
  EXPECT_TRUE(
      at::allclose(by(text.clauses, "mix(full,clause(1),clause(2))"), by(text.clauses, "clause(2)"), 1e-5, 1e-6));
}

// Each group by its own mask: the clause of a level; a window; the mixture.
TEST(ClauseAttention, HeadGroupsHaveMechanismsOfTheirOwn) {
  const ClauseCase text(5, 40, 17);
  MixInputs in(text.tokens, 4, 8, at::kDouble);
  const at::Tensor out = attend(in, text, mixture_of(4, "1*clause(2);1*window(5);2*mix(full,clause(1),clause(2))"));
  MixInputs alone = in;
  alone.p = in.p.clone();
  alone.p.select(1, 0).fill_(1);  // all weight on the clauses of level 2
  const at::Tensor wanted = oracle(alone, text);
  for (const int64_t head : {0, 2, 3})
    EXPECT_TRUE(at::allclose(out.select(1, head), wanted.select(1, head), 1e-12, 1e-12));
  const auto* bounds = text.offsets.const_data_ptr<int64_t>();
  for (int64_t b = 0; b < 5; ++b) {
    for (int64_t i = bounds[b]; i < bounds[b + 1]; ++i) {
      const int64_t first = std::max(bounds[b], i - 2), end = std::min(bounds[b + 1], i + 3);
      const at::Tensor keys = in.k.slice(0, first, end).select(1, 1), values = in.v.slice(0, first, end).select(1, 1);
      const at::Tensor weights = (keys.matmul(in.q[i][1]) / std::sqrt(8.0)).softmax(0);
      EXPECT_TRUE(at::allclose(out[i][1], weights.matmul(values), 1e-12, 1e-12)) << i;
    }
  }
}

TEST(ClauseAttention, KeepsDigitsOfClausesFarBelowTheBestKey) {
  const ClauseCase text(1, 1, 1);
  const at::Tensor offsets = index_tensor(std::vector<int64_t>{0, 6});
  const Clauses clauses{{index_tensor(std::vector<int64_t>{0, 3, 6})}};
  MixInputs in(6, 1, 4, at::kFloat);
  in.q.fill_(1);
  in.k.fill_(0);
  in.k.slice(0, 3, 6).fill_(150);  // scores of 300 beside 0
  in.require_gradients();
  const at::Tensor out = attend_to_clauses(clause_heads(mixture_of(1, "mix(full,clause(1),constant(0.5))")),
                                           {in.q, in.k, in.v, offsets, {}, &clauses}, {});
  const at::Tensor low = in.v.slice(0, 0, 3).mean(0), high = in.v.slice(0, 3, 6).mean(0);
  EXPECT_TRUE(at::allclose(out[0], (low + high) / 2, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(out[5], high, 1e-5, 1e-6));
  out.sum().backward();
  EXPECT_TRUE(in.k.grad().isfinite().all().item<bool>());
  EXPECT_NEAR(in.v.grad()[0][0][0].item<double>(), 0.5, 1e-5);  // three queries, weight 1/6 each
}

TEST(ClauseAttention, WeightsForAnalysisAreThoseThatMixTheValues) {
  const ClauseCase text(4, 15, 11);
  MixInputs in(text.tokens, 2, 8, at::kFloat);
  in.p = at::rand({2, text.tokens, 2, 1});  // by token
  const std::vector<ClauseHeads> heads = clause_heads(mixture_of(2, "mix(full,clause(1),clause(2),token)"));
  const ClauseInputs inputs = {in.q, in.k, in.v, text.offsets, in.p, &text.clauses};
  const at::Tensor out = attend_to_clauses(heads, inputs, {}), weights = clause_weights(heads, inputs, {});
  for (int64_t b = 0; b + 1 < text.offsets.numel(); ++b) {
    const int64_t begin = text.offsets[b].item<int64_t>(), end = text.offsets[b + 1].item<int64_t>();
    const at::Tensor own = weights[b].slice(1, 0, end - begin).slice(2, 0, end - begin);
    EXPECT_TRUE(at::allclose(at::einsum("hij,jhd->ihd", {own, in.v.slice(0, begin, end)}), out.slice(0, begin, end),
                             1e-4, 1e-5));
  }
}

TEST(ClauseAttention, DoesNotDependOnTheBatchOrTheThreads) {
  const ClauseCase text(8, 90, 13);
  MixInputs in(text.tokens, 4, 32, at::kFloat);
  const at::Tensor together = attend(in, text, mixture_of(4));
  const int64_t threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(attend(in, text, mixture_of(4)), together));
  at::set_num_threads(static_cast<int>(threads));
  const int64_t end = text.offsets[1].item<int64_t>();
  Clauses first;
  for (const at::Tensor& level : text.clauses.offsets)
    first.offsets.push_back(level.index({level <= end}).contiguous());
  MixInputs alone = in;
  for (at::Tensor* x : {&alone.q, &alone.k, &alone.v}) *x = x->slice(0, 0, end);
  const at::Tensor out =
      attend_to_clauses(clause_heads(mixture_of(4)),
                        {alone.q, alone.k, alone.v, text.offsets.slice(0, 0, 2).contiguous(), in.p, &first}, {});
  EXPECT_TRUE(at::equal(out, together.slice(0, 0, end)));
}

// Short sentences, of which most values are among the last of a tensor, where vectors of the processor do not reach.
TEST(ClauseAttention, WeightsByTokenDoNotDependOnTheBatch) {
  const at::NoGradGuard no_grad;
  const ClauseCase text(60, 7, 19);
  const LayerSpec spec = mixture_of(2, "mix(full,clause(1),clause(2),token)+topk(3)");
  Attention attention({.width = 16, .heads = 2}, {spec, spec}, InitScope(1));
  at::manual_seed(3);
  attention.named_parameters()["clause_mix_weight"].normal_();
  const at::Tensor x = at::randn({text.tokens, 16}), positions = at::arange(text.tokens);
  const auto run = [&](int64_t begin, int64_t end) {
    const auto own = [&](const at::Tensor& bounds) {
      return (bounds.index({bounds.ge(begin).logical_and(bounds.le(end))}) - begin).contiguous();
    };
    const auto clauses = std::make_shared<Clauses>();
    for (const at::Tensor& level : text.clauses.offsets) clauses->offsets.push_back(own(level));
    const at::Tensor offsets = own(text.offsets);
    return attention.attend(attention.project(x.slice(0, begin, end), positions.slice(0, begin, end)),
                            {offsets, offsets}, {}, {.clauses = clauses});
  };
  const at::Tensor together = run(0, text.tokens);
  for (int64_t b = 0; b + 1 < text.offsets.numel(); ++b) {
    const int64_t begin = text.offsets[b].item<int64_t>(), end = text.offsets[b + 1].item<int64_t>();
    EXPECT_TRUE(at::equal(run(begin, end), together.slice(0, begin, end))) << "sentence " << b;
  }
}

}  // namespace
}  // namespace fovea::nn::clause_attention_test
