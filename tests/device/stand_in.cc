// A stand-in for a CUDA device in a libtorch without CUDA, to be loaded before the program (LD_PRELOAD): the device of
// src/fovea/ops/test_device.h under CUDA's name. Three variables of the environment concern it: FOVEA_TEST_DEVICE_MIB,
// the greatest tensor that it has memory for; FOVEA_TEST_DEVICE_WITHOUT, a type that it has no matrix products for, by
// PyTorch's name; and FOVEA_TEST_DEVICE_WAITS, a file that gets a line for each operator that made the program wait:
// its name, a tab, how often.
#define FOVEA_TEST_DEVICE CUDA
#include "fovea/ops/test_device.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace fovea::ops::test_device {

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::Device getDeviceFromPtr(void*) const override { return kDevice; }
  c10::Allocator* getCUDADeviceAllocator() const override { return &allocator(); }
};
const at::RegistererCUDAHooksRegistry kHooks("CUDAHooks", at::CUDAHooksRegistry(),
                                             [](at::CUDAHooksArgs args) -> std::unique_ptr<at::CUDAHooksInterface> {
                                               return std::make_unique<Hooks>(args);
                                             });

struct Settings {
  Settings() {
    if (const char* mib = std::getenv("FOVEA_TEST_DEVICE_MIB")) most_bytes() = std::stoull(mib) << 20;
    if (const char* type = std::getenv("FOVEA_TEST_DEVICE_WITHOUT")) type_without_products() = type;
    if (const char* file = std::getenv("FOVEA_TEST_DEVICE_WAITS")) waits = file;
    wait_counts();  // made before, so that it lives longer
  }
  ~Settings() {
    if (waits.empty()) return;
    std::ofstream out(waits, std::ios::app);
    for (const auto& [name, count] : wait_counts().by_name) out << name << '\t' << count << '\n';
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
  std::string waits;
};
const Settings kSettings;

}  // namespace fovea::ops::test_device
