#include "fovea/nn/device.h"

#include <ATen/Context.h>
#include <ATen/ops/zeros.h>

#include <charconv>
#include <limits>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::nn {

at::Device parse_device(const std::string& devices) {
  if (devices == "cpu") return at::kCPU;
  int index = -1;
  const auto [end, error] = std::from_chars(devices.data(), devices.data() + devices.size(), index);
  if (error != std::errc() || end != devices.data() + devices.size() || index < 0) {
    throw Error(cat("--devices: got '", devices, "'; expected cpu or the number of one CUDA device"));
  }
  if (!at::hasCUDA()) throw Error(cat("--devices ", devices, ": libtorch sees no CUDA device; use --devices cpu"));
  if (index > std::numeric_limits<at::DeviceIndex>::max())
    throw Error(cat("--devices: got ", devices, "; there is no CUDA device of that number"));
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  try {
    (void)at::zeros({1}, device);
  } catch (const c10::Error& e) {
    throw Error(cat("--devices ", devices, ": ", e.what_without_backtrace()));
  }
  return device;
}

}  // namespace fovea::nn
