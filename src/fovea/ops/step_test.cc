#include "fovea/ops/step.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/kernels/step/dropout.h"

namespace fovea::ops {
namespace {

TEST(Dropout, DrawsElementByElementFromTheCounter) {
  const at::Tensor x = at::ones({7, 13}, at::kFloat).requires_grad_();
  const DropoutOptions options{.rate = 0.3, .seed = 5};
  const at::Tensor y = dropout(x, options);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const bool kept = kernels::element_survives(5, i, kernels::dropout_threshold(0.3F));
    EXPECT_FLOAT_EQ(y.view(-1)[i].item<float>(), kept ? 1 / 0.7F : 0.0F) << i;
  }
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
}

}  // namespace
}  // namespace fovea::ops
