#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fovea/kernels/simd/isa.h"

// Tests that run once for every instruction-set level of the machine:
//   INSTANTIATE_TEST_SUITE_P(Levels, ATest, testing::ValuesIn(runnable_isas()), level_title);
namespace fovea::kernels {

class LevelTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { set_isa(GetParam()); }
  void TearDown() override { set_isa(best_isa()); }
};

// The instruction-set level of a scope.
class AtIsa {
 public:
  explicit AtIsa(Isa level) { set_isa(level); }
  ~AtIsa() { set_isa(best_isa()); }
};

inline std::string level_title(const testing::TestParamInfo<Isa>& level) {
  std::string text(name(level.param));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

}  // namespace fovea::kernels
