#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "fovea/base/test_message.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::rms_norm_test {
namespace {

using testing::expect_as_good;
using testing::expect_same_on_all_threads;
using testing::Function;
using testing::normal;
using testing::Tensors;

// Zhang and Sennrich (2019), equation 4.
at::Tensor definition(const at::Tensor& x, const at::Tensor& gain, double eps) {
  return x / (x.square().mean(-1, /*keepdim=*/true) + eps).sqrt() * gain;
}

TEST(RmsNorm, IsItsDefinition) {
  for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {130, 128}, {67, 33}}) {
    for (const double eps : {1e-6, 0.5}) {
      const Function ours = [=](const Tensors& in) { return Tensors{rms_norm(in[0], in[1], eps)}; };
      const Function plain = [=](const Tensors& in) { return Tensors{definition(in[0], in[1], eps)}; };
      expect_as_good(ours, plain, {normal({tokens, width}, 1) + 3, normal({width}, 2)});
    }
  }
}

// Double and more than two dimensions go to PyTorch's operators.
TEST(RmsNorm, IsItsDefinitionWhereNoKernelComputes) {
  const at::Tensor x = normal({3, 5, 8}, 1), gain = normal({8}, 2);
  EXPECT_TRUE(at::allclose(rms_norm(x, gain), definition(x, gain, 1e-6), 1e-12, 1e-12));
  const auto [sum, out] = add_rms_norm(x, 2 * x, gain, {});
  EXPECT_TRUE(at::allclose(sum, 3 * x) && at::allclose(out, definition(3 * x, gain, 1e-6), 1e-12, 1e-12));
}

TEST(AddRmsNorm, IsItsDefinitionInBothResults) {
  for (const double rate : {0.0, 0.4}) {
    const DropoutOptions options{.rate = rate, .seed = 11};
    const Function ours = [&](const Tensors& in) {
      const auto [sum, out] = add_rms_norm(in[0], in[1], in[2], options);
      return Tensors{sum, out};
    };
    const Function plain = [&](const Tensors& in) {
      const at::Tensor sum = in[1] + composite::dropout(in[0], options);
      return Tensors{sum, definition(sum, in[2], 1e-6)};
    };
    const Tensors inputs = {normal({67, 45}, 1), normal({67, 45}, 2), normal({45}, 3)};
    expect_as_good(ours, plain, inputs);
    expect_same_on_all_threads(ours, {normal({1000, 45}, 1), normal({1000, 45}, 2), normal({45}, 3)});
    for (const size_t used : {0, 1}) {  // the other result has no gradient then
      const auto one_of = [&](const Function& both) {
        return [&, both](const Tensors& in) { return Tensors{both(in)[used] + 0 * in[2].sum()}; };
      };
      expect_as_good(one_of(ours), one_of(plain), inputs);
    }
  }
}

TEST(RmsNorm, OfATokenDoesNotDependOnTheOthers) {
  const at::Tensor x = normal({131, 64}, 1).to(at::kFloat), gain = normal({64}, 2).to(at::kFloat);
  const at::Tensor all = rms_norm(x, gain);
  for (const int64_t t : {0, 64, 130}) {
    EXPECT_TRUE(at::equal(all.slice(0, t, t + 1), rms_norm(x.slice(0, t, t + 1), gain)));
  }
}

TEST(RmsNorm, RefusesSecondDerivativesAndBadRatesByName) {
  const at::Tensor x = at::ones({2, 3}).requires_grad_(), gain = at::ones({3});
  const auto second = [&](const at::Tensor& out) {
    torch::autograd::grad({out.sum()}, {x}, {}, true, /*create_graph=*/true);
  };
  EXPECT_EQ(message_of([&] { second(rms_norm(x, gain)); }),
            "rms_norm: has no second derivatives; call backward() or grad() without create_graph");
  EXPECT_EQ(message_of([&] { second(std::get<1>(add_rms_norm(x, x, gain, {}))); }),
            "add_rms_norm: has no second derivatives; call backward() or grad() without create_graph");
  EXPECT_EQ(message_of([&] { add_rms_norm(x, x, gain, {.rate = 1.5}); }), "add_rms_norm: dropout 1.5 is not in [0, 1)");
}

}  // namespace
}  // namespace fovea::ops::rms_norm_test
