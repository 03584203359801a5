#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/test_message.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::gated_test {
namespace {

using testing::expect_as_good;
using testing::expect_same_on_all_threads;
using testing::Function;
using testing::normal;
using testing::Tensors;

constexpr Activation kGates[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu};

// Shazeer (2020), equation 6, with the activations written out.
at::Tensor definition(const at::Tensor& x, Activation activation) {
  const at::Tensor a = x.slice(1, 0, x.size(1) / 2), b = x.slice(1, x.size(1) / 2);
  const at::Tensor open = activation == Activation::kGelu ? (1 + at::erf(a / std::sqrt(2.0))) / 2
                          : activation == Activation::kGeluTanh
                              ? (1 + at::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a))) / 2
                              : 1 / (1 + at::exp(-a));
  return a * open * b;
}

TEST(Gated, IsItsDefinition) {
  for (const Activation activation : kGates) {
    for (const double rate : {0.0, 0.3}) {
      const DropoutOptions options{.rate = rate, .seed = 4};
      const Function ours = [&](const Tensors& in) { return Tensors{gated(in[0], activation, options)}; };
      const Function plain = [&](const Tensors& in) {
        return Tensors{composite::dropout(definition(in[0], activation), options)};
      };
      for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {130, 64}, {67, 33}}) {
        expect_as_good(ours, plain, {normal({tokens, 2 * width}, 1) * 3});
      }
      expect_same_on_all_threads(ours, {normal({900, 2 * 45}, 1)});
    }
  }
}

TEST(Gated, DropsWhatDropoutDropsToTheBit) {
  const DropoutOptions options{.rate = 0.3, .seed = 6};
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const Activation activation : kGates) {
      const at::Tensor x = normal({70, 74}, 1).to(type).requires_grad_(), y = x.detach().clone().requires_grad_();
      const at::Tensor ours = gated(x, activation, options), two = dropout(gated(y, activation), options);
      EXPECT_TRUE(at::equal(ours, two));
      const at::Tensor grad = normal({70, 37}, 2).to(type);
      ours.backward(grad), two.backward(grad);
      EXPECT_TRUE(at::equal(x.grad(), y.grad()));
    }
  }
}

TEST(Gated, TakesRowsApart) {
  const Function ours = [](const Tensors& in) { return Tensors{gated(in[0].slice(1, 3, 45), Activation::kSilu)}; };
  const Function plain = [](const Tensors& in) {
    return Tensors{definition(in[0].slice(1, 3, 45), Activation::kSilu)};
  };
  expect_as_good(ours, plain, {normal({29, 50}, 1)});
}

TEST(Activated, IsItsDefinition) {
  for (const Activation activation : kGates) {
    for (const double rate : {0.0, 0.3}) {
      const DropoutOptions options{.rate = rate, .seed = 4};
      const Function ours = [&](const Tensors& in) { return Tensors{activated(in[0], activation, options)}; };
      const Function plain = [&](const Tensors& in) {
        const at::Tensor both = at::cat({in[0], at::ones_like(in[0])}, 1);
        return Tensors{composite::dropout(definition(both, activation), options)};
      };
      for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {130, 64}, {67, 33}}) {
        expect_as_good(ours, plain, {normal({tokens, width}, 1) * 3});
      }
      expect_same_on_all_threads(ours, {normal({900, 45}, 1)});
    }
  }
}

TEST(Gated, RefusesWhatItCannotTake) {
  const auto message = [](const at::Tensor& x, Activation activation, double rate) {
    return message_of([&] { gated(x, activation, {.rate = rate}); });
  };
  EXPECT_EQ(message(at::ones({2, 4}), Activation::kRelu, 0),
            "gated: the activation is neither gelu nor silu; use one of them");
  EXPECT_EQ(message(at::ones({2, 5}), Activation::kGelu, 0),
            "gated: x has 2 dimensions, the last of 5; expected two, the last one even: [T, 2 F]");
  EXPECT_EQ(message(at::ones({2, 4}), Activation::kGelu, 1), "gated: dropout 1 is not in [0, 1)");
  const at::Tensor x = at::ones({2, 4}).requires_grad_();
  EXPECT_THROW(torch::autograd::grad({gated(x, Activation::kGelu).sum()}, {x}, {}, true, /*create_graph=*/true), Error);
}

}  // namespace
}  // namespace fovea::ops::gated_test
