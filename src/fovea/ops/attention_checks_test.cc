#include "fovea/ops/attention_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "fovea/base/error.h"

namespace fovea::ops::attention_checks_test {
namespace {

TEST(AttentionChecks, ScalesAreFiniteInFloat32) {
  for (const double good : {-3.0, 0.0, 1e38}) EXPECT_NO_THROW(check_scale(good, "attention"));
  EXPECT_NO_THROW(check_scale(std::nullopt, "attention"));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e39}) EXPECT_THROW(check_scale(bad, "attention"), Error);
}

}  // namespace
}  // namespace fovea::ops::attention_checks_test
