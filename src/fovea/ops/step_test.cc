#include "fovea/ops/step.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/kernels/layer/dropout.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/step_composite.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::step_test {
namespace {

using testing::evaluate;
using testing::expect_as_good;
using testing::expect_same_on_all_threads;
using testing::Function;
using testing::greatest_difference;
using testing::normal;
using testing::Tensors;
using testing::words;

struct Shape {
  int64_t tokens, in, out;
};

class LinearTest : public ::testing::TestWithParam<std::tuple<Shape, Activation>> {};

TEST_P(LinearTest, IsAsGoodAsPyTorch) {
  const auto [shape, activation] = GetParam();
  const auto with = [activation = activation](auto linear_of) {
    return [=](const Tensors& in) { return Tensors{linear_of(in[0], in[1], in[2], activation)}; };
  };
  const Tensors inputs = {normal({shape.tokens, shape.in}, 1), normal({shape.out, shape.in}, 2),
                          normal({shape.out}, 3)};
  expect_as_good(with(ops::linear), with(composite::linear), inputs);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest,
                         ::testing::Combine(::testing::Values(Shape{1, 1, 1}, Shape{7, 5, 3}, Shape{65, 33, 31},
                                                              Shape{300, 128, 96}, Shape{130, 31, 300}),
                                            ::testing::Values(Activation::kNone, Activation::kRelu, Activation::kGelu,
                                                              Activation::kGeluTanh, Activation::kSilu)));

TEST(Linear, TakesStridedInputsAndNoBias) {
  const Function ours = [](const Tensors& in) {
    return Tensors{ops::linear(in[0].slice(1, 3, 40), in[1].t(), std::nullopt)};
  };
  const Function plain = [](const Tensors& in) {
    return Tensors{composite::linear(in[0].slice(1, 3, 40), in[1].t(), std::nullopt, Activation::kNone)};
  };
  expect_as_good(ours, plain, {normal({29, 50}, 1), normal({37, 21}, 2)});
}

TEST(Linear, DoesNotDependOnThreads) {
  const Function f = [](const Tensors& in) { return Tensors{ops::linear(in[0], in[1], in[2], Activation::kRelu)}; };
  expect_same_on_all_threads(f, {normal({700, 128}, 1), normal({130, 128}, 2), normal({130}, 3)});
}

TEST(Linear, OfATokenDoesNotDependOnTheOthers) {
  const at::Tensor x = normal({131, 64}, 1).to(at::kFloat), weight = normal({48, 64}, 2).to(at::kFloat);
  const at::Tensor all = ops::linear(x, weight, std::nullopt);
  for (const int64_t t : {0, 64, 130}) {
    EXPECT_TRUE(at::equal(all.slice(0, t, t + 1), ops::linear(x.slice(0, t, t + 1), weight, std::nullopt)));
  }
}

TEST(Dropout, DrawsElementByElementFromTheCounter) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::ones({7, 13}, type).requires_grad_();
    const at::Tensor y = dropout(x, {.rate = 0.3, .seed = 5});
    for (int64_t i = 0; i < y.numel(); ++i) {
      const bool kept = kernels::element_survives(5, i, kernels::dropout_threshold(0.3F));
      EXPECT_NEAR(y.view(-1)[i].item<double>(), kept ? 1 / 0.7 : 0.0, 1e-6) << i;
    }
    y.sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), y.detach()));
  }
}

// The number that stays is binomial: five standard deviations, which a fair draw passes but once in two million. Seeds
// that differ by one must not share a mask: two masks agree in a fraction (1-p)^2 + p^2.
TEST(Dropout, KeepsTheShareItShould) {
  constexpr int64_t kCount = 1 << 20;
  const at::Tensor x = at::ones({kCount}, at::kFloat);
  for (const double rate : {0.1, 0.3, 0.5, 0.9}) {
    const at::Tensor one = dropout(x, {.rate = rate, .seed = 1}) > 0, two = dropout(x, {.rate = rate, .seed = 2}) > 0;
    const auto expect_share = [&](const at::Tensor& mask, double share) {
      const double deviation = std::sqrt(share * (1 - share) * kCount);
      EXPECT_NEAR(mask.sum().item<double>(), share * kCount, 5 * deviation) << rate;
    };
    expect_share(one, 1 - rate);
    expect_share(two, 1 - rate);
    expect_share(one == two, (1 - rate) * (1 - rate) + rate * rate);
  }
}

TEST(LayerNorm, IsAsGoodAsPyTorch) {
  for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {130, 128}, {67, 33}}) {
    const Function ours = [](const Tensors& in) { return Tensors{layer_norm(in[0], in[1], in[2])}; };
    const Function plain = [](const Tensors& in) { return Tensors{composite::layer_norm(in[0], in[1], in[2], 1e-5)}; };
    expect_as_good(ours, plain, {normal({tokens, width}, 1) + 3, normal({width}, 2), normal({width}, 3)});
  }
}

TEST(AddNorm, IsAsGoodAsPyTorchInBothResults) {
  for (const double rate : {0.0, 0.4}) {
    const DropoutOptions options{.rate = rate, .seed = 11};
    const Function ours = [&](const Tensors& in) {
      const auto [sum, out] = add_norm(in[0], in[1], in[2], in[3], options);
      return Tensors{sum, out};
    };
    const Function plain = [&](const Tensors& in) {
      const at::Tensor sum = in[1] + composite::dropout(in[0], options);
      return Tensors{sum, composite::layer_norm(sum, in[2], in[3], 1e-5)};
    };
    const Tensors inputs = {normal({67, 45}, 1), normal({67, 45}, 2), normal({45}, 3), normal({45}, 4)};
    expect_as_good(ours, plain, inputs);
    expect_same_on_all_threads(ours, {normal({1000, 45}, 1), normal({1000, 45}, 2), normal({45}, 3), normal({45}, 4)});
    const Function second = [&](const Tensors& in) { return Tensors{ours(in)[1]}; };
    expect_as_good(
        second, [&](const Tensors& in) { return Tensors{plain(in)[1]}; }, inputs);
  }
}

TEST(Embed, IsAsGoodAsPyTorchAndSumsRepeatedWords) {
  const at::Tensor ids = words(90, 12, 1), position = words(90, 30, 2);
  const Tensors tables = {normal({14, 37}, 4), normal({30, 37}, 3)};
  for (const double rate : {0.0, 0.25}) {
    const DropoutOptions options{.rate = rate, .seed = 8};
    const Function learned = [&](const Tensors& in) {
      return Tensors{embed(ids, position, in[0], in[1], 6.0, options)};
    };
    const Function fixed = [&](const Tensors& in) {
      return Tensors{embed(ids, position, in[0], in[1].detach(), 6.0, options) + 0 * in[1].sum()};
    };
    const Function plain = [&](const Tensors& in) {
      return Tensors{composite::dropout(composite::embed(ids, position, in[0], in[1], 6.0), options)};
    };
    expect_as_good(learned, plain, tables);
    expect_same_on_all_threads(learned, tables);
    const Tensors with = evaluate(learned, tables, at::kFloat, at::kFloat);
    const Tensors without = evaluate(fixed, tables, at::kFloat, at::kFloat);
    EXPECT_TRUE(at::equal(with[0], without[0]) && at::equal(with[1], without[1]));
  }
}

// In bfloat16 a sum of ones would stay at 256.
TEST(Embed, SumsGradientsInFloat32) {
  const at::Tensor ids = at::zeros({1000}, at::kLong);
  const at::Tensor weight = at::zeros({3, 2}, at::kBFloat16).requires_grad_();
  const at::Tensor positions = at::zeros({4, 2}, at::kBFloat16).requires_grad_();
  embed(ids, ids, weight, positions, 1, {}).sum().backward();
  for (const at::Tensor& table : {weight, positions}) {
    EXPECT_TRUE(at::equal(table.grad()[0], at::full({2}, 1000, at::kBFloat16)));
    EXPECT_EQ(table.grad().slice(0, 1).abs().sum().item<float>(), 0);
  }
}

TEST(Embed, RefusesAWordBeyondTheTable) {
  const at::Tensor weight = at::zeros({4, 2});
  EXPECT_THROW(embed(at::full({1}, 4, at::kLong), {}, weight, std::nullopt, 1, {}), Error);
}

class CrossEntropyTest : public ::testing::TestWithParam<Shape> {};

TEST_P(CrossEntropyTest, IsAsGoodAsPyTorch) {
  const Shape shape = GetParam();
  const at::Tensor targets = words(shape.tokens, shape.out, 5);
  // The soft cap 6 bends logits with a deviation of 3 by a sixth and less. A lower cap makes the bias's gradients so
  // small that the rounding of their sums, one token after the other, exceeds the bound.
  for (const auto& [smoothing, softcap] : {std::pair(0.0, 0.0), {0.1, 0.0}, {0.0, 6.0}, {0.1, 6.0}}) {
    const auto with = [&](auto loss_of) {
      return [=, smoothing = smoothing, softcap = softcap](const Tensors& in) {
        return Tensors{loss_of(in[0], {in[1], in[2], softcap}, targets, smoothing).loss};
      };
    };
    const Tensors inputs = {normal({shape.tokens, shape.in}, 1), normal({shape.out, shape.in}, 2) * 0.3,
                            normal({shape.out}, 3)};
    expect_as_good(with(ops::cross_entropy), with(composite::cross_entropy), inputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CrossEntropyTest,
                         ::testing::Values(Shape{1, 1, 1}, Shape{3, 5, 2}, Shape{129, 33, 70}, Shape{300, 64, 1111}));

TEST(CrossEntropy, NllAgreesWithTheLossWithoutSmoothingAndWithEveryToken) {
  const at::Tensor hidden = normal({150, 24}, 1).to(at::kFloat), weight = normal({200, 24}, 2).to(at::kFloat);
  const at::Tensor targets = words(150, 200, 3);
  const CrossEntropy all = cross_entropy(hidden, {weight}, targets, 0);
  const at::Tensor each = token_scores(hidden, {weight}, targets).nll;
  EXPECT_EQ(all.loss.item<float>(), all.nll.item<float>());
  EXPECT_EQ(all.nll.item<float>(), static_cast<float>(each.to(at::kDouble).sum().item<double>()));
  for (const int64_t t : {0, 127, 149}) {
    const TokenScores alone = token_scores(hidden.slice(0, t, t + 1), {weight}, targets.slice(0, t, t + 1));
    EXPECT_EQ(alone.nll.item<float>(), each[t].item<float>()) << "a token alone or among others, bit for bit";
  }
}

TEST(CrossEntropy, GradientsFollowTheFactorAndNotTheThreads) {
  const at::Tensor targets = words(260, 500, 5);
  const Function f = [&](const Tensors& in) {
    return Tensors{cross_entropy(in[0], {in[1], in[2]}, targets, 0.1).loss * 3};
  };
  expect_same_on_all_threads(f, {normal({260, 48}, 1), normal({500, 48}, 2), normal({500}, 3)});
}

TEST(CrossEntropy, SurvivesHugeLogitsAndPassesOnNotANumber) {
  at::Tensor hidden = at::full({2, 4}, 1e4F), weight = normal({40, 4}, 2).to(at::kFloat);
  EXPECT_TRUE(std::isfinite(cross_entropy(hidden, {weight}, words(2, 40, 1), 0.1).loss.item<float>()));
  hidden[0][0] = std::nanf("");
  EXPECT_TRUE(std::isnan(cross_entropy(hidden, {weight}, words(2, 40, 1), 0.1).loss.item<float>()));
}

TEST(CrossEntropy, OfNoTokensHasZeroGradients) {
  const at::Tensor hidden = at::zeros({0, 41}).requires_grad_();
  const at::Tensor weight = at::zeros({300, 41}).requires_grad_(), bias = at::zeros({300}).requires_grad_();
  for (const at::Tensor& like : {weight, bias}) at::full_like(like, 777.0F);  // what memory holds that is used again
  const CrossEntropy cost = cross_entropy(hidden, {weight, bias}, at::zeros({0}, at::kLong), 0.1);
  cost.loss.backward();
  EXPECT_EQ(cost.loss.item<float>(), 0);
  for (const at::Tensor& table : {weight, bias}) EXPECT_EQ(table.grad().abs().sum().item<float>(), 0);
}

TEST(CrossEntropy, RefusesATargetBeyondTheVocabulary) {
  const at::Tensor targets = at::full({2}, 9, at::kLong);
  EXPECT_THROW(cross_entropy(at::zeros({2, 3}), {at::zeros({9, 3})}, targets, 0), Error);
}

// Gradients with a graph of their own. Kernels give none but dropout, which is linear.
TEST(Step, SecondDerivativesAreRightOrRefused) {
  const auto penalty = [](const at::Tensor& out, const at::Tensor& x) {
    const at::Tensor first = torch::autograd::grad({out.square().sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {x})[0];
  };
  const at::Tensor x = normal({6, 4}, 1).to(at::kFloat).requires_grad_();
  const at::Tensor weight = normal({5, 4}, 2).to(at::kFloat), width = normal({4}, 3).to(at::kFloat);
  const at::Tensor index = words(6, 5, 4), heads = x.view({1, 1, 6, 4});
  AttentionOptions normalised;
  normalised.gain = width;
  const std::vector<std::function<at::Tensor()>> refused = {
      [&] { return linear(x, weight, std::nullopt, Activation::kRelu); },
      [&] { return layer_norm(x, width, width); },
      [&] { return std::get<0>(add_norm(x, x, width, width, {})); },
      [&] { return std::get<1>(add_norm(x, x, width, width, {.rate = 0.5})); },
      [&] { return embed(index, {}, x, std::nullopt, 2, {}); },
      [&] { return cross_entropy(x, {weight}, index, 0.1).loss; },
      [&] { return attention(heads, heads, heads, "topk(2)", {}); },
      [&] { return attention(heads, heads, heads, "window(2)+relu+rmsnorm", normalised); }};
  for (const auto& make : refused) {
    try {
      penalty(make(), x);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("has no second derivatives"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(make().sum().backward());
  }
  const DropoutOptions options{.rate = 0.5, .seed = 3};
  EXPECT_TRUE(at::allclose(penalty(dropout(x, options), x), penalty(composite::dropout(x, options), x)));
}

TEST(Step, RatesOfDropoutOutsideOfTheirRangeAreRefused) {
  const at::Tensor width = at::ones({3}), ids = at::zeros({2}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::ones({2, 3}, type);
    for (const double rate : {1.0, 1 - 1e-9, 2.0, -0.1, std::nan("")}) {
      const DropoutOptions options{.rate = rate};
      EXPECT_THROW(dropout(x, options), Error) << rate;
      EXPECT_THROW(add_norm(x, x, width.to(type), width.to(type), options), Error) << rate;
      EXPECT_THROW(embed(ids, {}, x, std::nullopt, 1, options), Error) << rate;
    }
  }
}

AdamState state_of(int64_t count, at::ScalarType type) {
  return {.params = normal({count}, 1).to(type),
          .mean = normal({count}, 2).to(type) * 0.1,
          .variance = normal({count}, 3).to(type).square() * 0.1,
          .copy = {}};
}

// A few roundings of numbers below 4: each at most 2^-24 of the number, doubled for what they feed into.
TEST(Adam, FollowsTheFormulaInDouble) {
  const AdamOptions options{.learn_rate = 0.01, .weight_decay = 0.1, .step = 7, .grad_scale = 0.5};
  const AdamState ours = state_of(40001, at::kFloat), truth = state_of(40001, at::kDouble);
  const at::Tensor grads = normal({40001}, 4);
  adam_step(ours, grads.to(at::kFloat), options);
  composite::adam_step(truth, grads, options);
  EXPECT_LE(greatest_difference(ours.mean.to(at::kDouble), truth.mean), 1e-6);
  EXPECT_LE(greatest_difference(ours.variance.to(at::kDouble), truth.variance), 1e-6);
  EXPECT_LE(greatest_difference(ours.params.to(at::kDouble), truth.params), 2e-6);
}

TEST(Adam, RefreshesTheRoundedCopyFromRoundedGradients) {
  AdamState state = state_of(1001, at::kFloat), plain = state_of(1001, at::kFloat);
  state.copy = at::empty({1001}, at::kBFloat16);
  const at::Tensor grads = normal({1001}, 4).to(at::kBFloat16);
  adam_step(state, grads, {});
  adam_step(plain, grads.to(at::kFloat), {});
  EXPECT_TRUE(at::equal(state.params, plain.params));
  EXPECT_TRUE(at::equal(state.copy, state.params.to(at::kBFloat16)));
}

TEST(Norm, IsExactToDoubleAndIndependentOfThreads) {
  const at::Tensor flat = normal({1000003}, 1).to(at::kFloat);
  const double truth = flat.to(at::kDouble).square().sum().sqrt().item<double>();
  EXPECT_NEAR(ops::l2_norm(flat), truth, 1e-12 * truth);  // a million roundings of 2^-53, of either sign
  const int threads = at::get_num_threads();
  const double many = ops::l2_norm(flat);
  at::set_num_threads(1);
  EXPECT_EQ(ops::l2_norm(flat), many);
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace fovea::ops::step_test
