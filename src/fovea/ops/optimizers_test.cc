#include "fovea/ops/optimizers.h"

#include <gtest/gtest.h>

#include "fovea/base/error.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::optimizers_test {
namespace {
using namespace testing;

at::Tensor as_float(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

TEST(Adagrad, FollowsTheFormulaInDouble) {
  const AdagradState truth = {.params = normal({40001}, 1), .sum = normal({40001}, 2).square(), .copy = {}};
  const AdagradState ours = {
      .params = as_float(truth.params), .sum = as_float(truth.sum), .copy = at::empty({40001}, at::kBFloat16)};
  const at::Tensor grads = normal({40001}, 3);
  const AdagradOptions options{.learn_rate = 0.1, .eps = 1e-3, .grad_scale = 0.5};
  adagrad_step(ours, as_float(grads), options);
  composite::adagrad_step(truth, grads, options);
  // A few roundings of sums below 32 and of weights below 8.
  EXPECT_LE(greatest_difference(ours.sum.to(at::kDouble), truth.sum), 8e-6);
  EXPECT_LE(greatest_difference(ours.params.to(at::kDouble), truth.params), 2e-6);
  EXPECT_TRUE(at::equal(ours.copy, ours.params.to(at::kBFloat16)));
  EXPECT_THROW(adagrad_step(ours, as_float(grads).narrow(0, 0, 5), options), Error);
}

TEST(Adafactor, FollowsTheFormulaInDouble) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {101}, {1, 5}, {33, 17}, {2, 3, 5, 7}}) {
    for (const bool relative : {false, true}) {
      const at::Tensor params = normal(shape, 1), grads = normal(shape, 2);
      const AdafactorParameter truth = adafactor_parameter(params, grads, {});
      const AdafactorParameter ours = adafactor_parameter(as_float(params), as_float(grads), {});
      for (int64_t t = 1; t <= 3; ++t) {
        const AdafactorOptions options{
            .learn_rate = 0.1, .relative_step = relative, .clip = 0.5, .weight_decay = 0.1, .grad_scale = 2, .step = t};
        grads.add_(normal(shape, 2 + static_cast<uint64_t>(t)));
        ours.grads.copy_(grads);
        adafactor_step({&ours, 1}, options);
        composite::adafactor_step(truth, options);
      }
      // Three updates of a few roundings each, of weights below 4.
      EXPECT_LE(greatest_difference(ours.params.to(at::kDouble), truth.params), 2e-6) << shape;
      // Means of squares below 200.
      EXPECT_LE(greatest_difference(ours.column.to(at::kDouble), truth.column), 1e-4) << shape;
      EXPECT_EQ(ours.row.defined(), shape.size() > 1);
      if (!ours.row.defined()) continue;
      EXPECT_LE(greatest_difference(ours.row.to(at::kDouble), truth.row), 1e-4) << shape;
    }
  }
}

TEST(Norms, AreEachTensorsOwn) {
  const std::vector<at::Tensor> tensors = {normal({40001}, 1).to(at::kFloat), at::zeros({}), normal({3, 5}, 2)};
  for (const size_t count : {size_t{2}, size_t{3}}) {  // with a tensor of doubles, PyTorch computes
    const std::vector<double> norms = l2_norms(std::span(tensors).first(count));
    ASSERT_EQ(norms.size(), count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(norms[i], l2_norm(tensors[i])) << i;
  }
}

}  // namespace
}  // namespace fovea::ops::optimizers_test
