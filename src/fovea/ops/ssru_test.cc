#include "fovea/ops/ssru.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include "fovea/base/error.h"
#include "fovea/base/test_message.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::ssru_test {
namespace {

using testing::expect_as_good;
using testing::expect_same_on_all_threads;
using testing::Function;
using testing::normal;
using testing::Tensors;

at::Tensor offsets_of(std::vector<int64_t> offsets) { return at::tensor(offsets, at::kLong); }

// Token by token, as it is written; differentiable in any type.
at::Tensor definition(const at::Tensor& projected, const at::Tensor& offsets) {
  const int64_t width = projected.size(1) / 2;
  std::vector<at::Tensor> out = {at::empty({0, width}, projected.options())};
  for (int64_t b = 0; b + 1 < offsets.numel(); ++b) {
    at::Tensor state = at::zeros({width}, projected.options());
    for (int64_t t = offsets[b].item<int64_t>(); t < offsets[b + 1].item<int64_t>(); ++t) {
      const at::Tensor f = 1 / (1 + at::exp(-projected[t].slice(0, width)));
      state = f * state + (1 - f) * projected[t].slice(0, 0, width);
      out.push_back(at::clamp_min(state, 0).unsqueeze(0));
    }
  }
  return at::cat(out);
}

TEST(Ssru, IsItsDefinition) {
  for (const std::vector<int64_t>& bounds : std::vector<std::vector<int64_t>>{{0, 1}, {0, 5, 5, 6, 30}, {0, 130}}) {
    const at::Tensor offsets = offsets_of(bounds);
    const Function ours = [&](const Tensors& in) { return Tensors{ssru(in[0], offsets)}; };
    const Function plain = [&](const Tensors& in) { return Tensors{definition(in[0], offsets)}; };
    for (const int64_t width : {1, 33, 64}) {
      const at::Tensor projected = normal({bounds.back(), 2 * width}, 1) * 2;
      expect_as_good(ours, plain, {projected});
      // Without kernels, as on other devices: sums of at most 130 terms below 8 in another order.
      const at::Tensor other = ssru(projected, offsets), one = definition(projected, offsets);
      EXPECT_LT((other - one).abs().max().item<double>(), 1e-13);
    }
  }
  const at::Tensor offsets = offsets_of({0, 400, 900});
  expect_same_on_all_threads([&](const Tensors& in) { return Tensors{ssru(in[0], offsets)}; }, {normal({900, 90}, 1)});
}

TEST(Ssru, GradientsWithoutKernelsAreFiniteDifferences) {
  const at::Tensor offsets = offsets_of({0, 4, 5, 12});
  at::Tensor projected = normal({12, 6}, 3).requires_grad_();
  const at::Tensor factors = normal({12, 3}, 4), direction = normal({12, 6}, 5);
  (ssru(projected, offsets) * factors).sum().backward();
  const auto along = [&](double step) {
    const at::NoGradGuard guard;
    return (ssru(projected + direction * step, offsets) * factors).sum().item<double>();
  };
  const double difference = (along(1e-6) - along(-1e-6)) / 2e-6;
  EXPECT_NEAR((projected.grad() * direction).sum().item<double>(), difference, 1e-7 * (1 + std::abs(difference)));
}

TEST(Ssru, StepsAreTheWholePass) {
  const at::Tensor offsets = offsets_of({0, 6, 12, 18});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor projected = normal({18, 40}, 7).to(type), whole = ssru(projected, offsets);
    at::Tensor states = at::zeros({3, 20}, type == at::kDouble ? at::kDouble : at::kFloat);
    for (int64_t t = 0; t < 6; ++t) {
      const at::Tensor rows = projected.view({3, 6, 40}).select(1, t), got = ssru_step(rows, states);
      const at::Tensor want = whole.view({3, 6, 20}).select(1, t);
      EXPECT_LE((got - want).abs().max().item<double>(), type == at::kDouble ? 1e-15 : 0) << type << " step " << t;
    }
  }
}

TEST(Ssru, RefusesWhatItCannotTake) {
  const at::Tensor offsets = offsets_of({0, 2});
  EXPECT_EQ(message_of([&] {
              ssru(at::ones({2, 5}), offsets);
            }),
            "ssru: the projections have 2 dimensions, the last of 5; expected two, the last one even: [T, 2 M]");
  for (const std::vector<int64_t>& wrong : std::vector<std::vector<int64_t>>{{0, 3}, {1, 2}, {0, 3, 2}}) {
    EXPECT_EQ(message_of([&] {
                ssru(at::ones({2, 4}), offsets_of(wrong));
              }),
              "ssru: expected offsets [B + 1], int64 on the CPU, that rise from 0 to the 2 tokens");
  }
  at::Tensor states = at::zeros({1, 2});
  EXPECT_THROW(ssru_step(at::ones({2, 4}), states), Error);
  const at::Tensor x = at::ones({2, 4}).requires_grad_();
  EXPECT_THROW(torch::autograd::grad({ssru(x, offsets).sum()}, {x}, {}, true, /*create_graph=*/true), Error);
}

}  // namespace
}  // namespace fovea::ops::ssru_test
