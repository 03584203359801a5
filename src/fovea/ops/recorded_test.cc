#include "fovea/ops/recorded.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fovea/ops/step.h"

namespace fovea::ops::recorded_test {
namespace {

std::vector<std::string>& seen() {
  static std::vector<std::string> names;
  return names;
}
std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call) {
  seen().emplace_back(call.name());
  return nullptr;
}
bool has_seen(const std::string& part) {
  return std::ranges::any_of(seen(), [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

// bench/update_profile sorts an update's work by these names.
TEST(Recorded, ProfilersSeeOperatorsAndTheirBackwardsByName) {
  const at::Tensor x = torch::randn({3, 4}).requires_grad_(), weight = torch::randn({5, 4}).requires_grad_();
  const at::CallbackHandle handle = at::addThreadLocalCallback(at::RecordFunctionCallback(see));
  linear(x, weight, std::nullopt, Activation::kGelu).sum().backward();
  at::removeCallback(handle);
  for (const char* name : {"fovea::linear", "fovea::activated", "::Linear>", "::LayerUnits>", "AccumulateGrad"})
    EXPECT_TRUE(has_seen(name)) << name;
}

}  // namespace
}  // namespace fovea::ops::recorded_test
