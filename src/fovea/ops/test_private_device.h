#pragma once
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "fovea/ops/test_device.h"

// The test device in the place that PyTorch keeps for devices from outside.
namespace fovea::ops::test_device {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

inline const bool kRegistered = [] {
  static Hooks hooks;
  c10::register_privateuse1_backend("testdevice");  // autograd asks for a device that has a name
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace fovea::ops::test_device
