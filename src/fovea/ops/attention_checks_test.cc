#include "fovea/ops/attention_checks.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "fovea/base/error.h"

namespace fovea::ops::attention_checks_test {
namespace {

// Kernels read through pointers what forward left, so its size counts where they run, on the CPU.
TEST(AttentionChecks, SavedBuffersHaveTheirSizeOnTheCpu) {
  constexpr kernels::SavedPerRow kSize{.floats = 2, .ints = 3};
  const auto check = [&](at::Device device, int64_t floats, int64_t ints) {
    const auto make = [&](at::IntArrayRef sizes, at::ScalarType type) {
      return at::empty(sizes, at::TensorOptions(device).dtype(type));
    };
    const at::Tensor q = make({1, 4, 5, 8}, at::kFloat);
    check_saved(q, q, {q, make({5, 4, floats}, at::kFloat), make({5, 4, ints}, at::kInt), {}}, kSize);
  };
  EXPECT_NO_THROW(check(at::kCPU, 2, 3));
  EXPECT_THROW(check(at::kCPU, 0, 0), Error);
  EXPECT_NO_THROW(check(at::kMeta, 0, 0));
  EXPECT_NO_THROW(check(at::kMeta, 2, 3));
}

TEST(AttentionChecks, ScalesAreFiniteInFloat32) {
  for (const double good : {-3.0, 0.0, 1e38}) EXPECT_NO_THROW(check_scale(good, "attention"));
  EXPECT_NO_THROW(check_scale(std::nullopt, "attention"));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e39}) EXPECT_THROW(check_scale(bad, "attention"), Error);
}

}  // namespace
}  // namespace fovea::ops::attention_checks_test
