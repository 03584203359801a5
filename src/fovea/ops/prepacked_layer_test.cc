#include "fovea/ops/prepacked_layer.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <limits>

#include "fovea/base/error.h"
#include "fovea/kernels/layer/top_n.h"

namespace fovea::ops::prepacked_layer_test {
namespace {

struct Problem {
  at::Tensor x, weight, bias;
};

Problem problem(int64_t rows, int64_t depth, int64_t columns) {
  at::manual_seed(1);
  return {at::randn({rows, depth}), at::randn({columns, depth}), at::randn({columns})};
}

TEST(PrepackedLayer, HasTheBitsOfLinear) {
  const Problem p = problem(70, 37, 45);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      for (const at::Tensor& bias : {p.bias.to(type), at::Tensor()}) {
        const at::Tensor weight = p.weight.to(type);
        // Rows that lie apart, too.
        const at::Tensor x = p.x.to(type), apart = at::cat({x, x}, 1).narrow(1, 0, 37);
        const auto want = linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, activation);
        const PrepackedLayer layer(weight, bias);
        // Doubles are multiplied by ATen, whose order of sums may follow the strides: 37 terms of some units each.
        const auto same = [&](const at::Tensor& got) {
          return type == at::kDouble ? at::allclose(got, want, 0, 1e-12) : at::equal(got, want);
        };
        EXPECT_TRUE(same(layer(x, activation))) << type;
        EXPECT_TRUE(same(layer(apart, activation))) << type;
        EXPECT_EQ(layer(x.narrow(0, 0, 0)).size(0), 0);
      }
    }
  }
}

TEST(PrepackedLayer, In8BitsIsNearLinear) {
  const Problem p = problem(70, 37, 45);
  const PrepackedLayer layer(p.weight, p.bias, PrepackedLayer::Format::kInt8);
  const at::Tensor want = linear(p.x, p.weight, p.bias, Activation::kRelu);
  const at::Tensor got = layer(p.x, Activation::kRelu);
  EXPECT_FALSE(at::equal(got, want));
  // 37 terms of normal numbers of up to about 4, each factor off by up to 4 / 254: deviations of some 0.08.
  EXPECT_TRUE(at::allclose(got, want, 0, 0.5));
  // In double, for which there are no kernels, the layer stays exact.
  const at::Tensor weight = p.weight.to(at::kDouble), x = p.x.to(at::kDouble);
  EXPECT_TRUE(
      at::allclose(PrepackedLayer(weight, {}, PrepackedLayer::Format::kInt8)(x), at::linear(x, weight), 0, 1e-12));
}

TEST(PrepackedLayer, FindsTheNextWords) {
  const Problem p = problem(9, 20, 101);
  const PrepackedLayer layer(p.weight, p.bias);
  kernels::Continuations next;
  EXPECT_EQ(layer.next_words(p.x, {.n = 4, .eos = 100}, next), 0);
  const at::Tensor log_probs = at::log_softmax(at::linear(p.x, p.weight, p.bias).to(at::kDouble), 1);
  const auto [best, index] = log_probs.topk(4, 1);
  ASSERT_EQ(next.best.size(), 36U);
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t i = 0; i < 4; ++i) {
      const kernels::Candidate& found = next.best[static_cast<size_t>(r * 4 + i)];
      EXPECT_EQ(found.token, index[r][i].item<int64_t>());
      EXPECT_NEAR(found.log_prob, best[r][i].item<double>(), 1e-5);
    }
    EXPECT_NEAR(next.eos_log_prob[static_cast<size_t>(r)], log_probs[r][100].item<double>(), 1e-5);
  }
  EXPECT_TRUE(next.asked_log_probs.empty());
  // Asked words have the bits that they have among the best.
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> asked;
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t i = 0; i < r % 3; ++i) asked.push_back(next.best[static_cast<size_t>(r * 4 + 3 - i)].token);
    offsets.push_back(std::ssize(asked));
  }
  const std::vector<kernels::Candidate> found = next.best;
  EXPECT_EQ(layer.next_words(p.x, {.n = 1, .eos = 0, .asked_offsets = offsets, .asked = asked}, next), 0);
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t i = 0; i < r % 3; ++i)
      EXPECT_EQ(next.asked_log_probs[static_cast<size_t>(offsets[static_cast<size_t>(r)] + i)],
                found[static_cast<size_t>(r * 4 + 3 - i)].log_prob);
  }
  p.x[3][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(layer.next_words(p.x, {.n = 4, .eos = 100}, next), 1);
}

TEST(PrepackedLayer, ASoftCapBendsTheLogits) {
  const Problem p = problem(5, 20, 40);
  constexpr double kCap = 2;
  const PrepackedLayer layer(OutputLayer{p.weight, p.bias, kCap}), plain(p.weight, p.bias);
  const at::Tensor logits = at::tanh(plain(p.x) / kCap) * kCap;
  EXPECT_TRUE(at::allclose(layer(p.x), logits, 0, 1e-6));
  kernels::Continuations next;
  EXPECT_EQ(layer.next_words(p.x, {.n = 3, .eos = 7}, next), 0);
  const at::Tensor log_probs = at::log_softmax(logits.to(at::kDouble), 1);
  const at::Tensor best = std::get<0>(log_probs.topk(3, 1));
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t i = 0; i < 3; ++i) {
      const kernels::Candidate& found = next.best[static_cast<size_t>(r * 3 + i)];
      EXPECT_NEAR(found.log_prob, best[r][i].item<double>(), 1e-5);
      EXPECT_NEAR(log_probs[r][found.token].item<double>(), best[r][i].item<double>(), 1e-5);
    }
    EXPECT_NEAR(next.eos_log_prob[static_cast<size_t>(r)], log_probs[r][7].item<double>(), 1e-5);
  }
}

TEST(PrepackedLayer, RefusesWhatHasNoSuchWords) {
  const Problem p = problem(2, 3, 5);
  kernels::Continuations next;
  try {
    PrepackedLayer(p.weight, p.bias).next_words(p.x, {.n = 6, .eos = 0}, next);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "next_words: got 6 words of a layer of 5 columns for rows of 2 dimensions; expected float32 rows "
                 "[T, 3] and no more words than columns");
  }
}

}  // namespace
}  // namespace fovea::ops::prepacked_layer_test
