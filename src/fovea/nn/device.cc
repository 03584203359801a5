#include "fovea/nn/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/base/threads.h"

namespace fovea::nn {

at::Device parse_device(const std::string& devices) {
  if (devices == "cpu") return at::kCPU;
  const std::optional<int> index = number_in<int>(devices, 0, std::numeric_limits<int>::max());
  if (!index) {
    throw Error(cat("--devices: got '", devices, "'; expected cpu or the number of one CUDA device"));
  }
  if (!at::hasCUDA()) throw Error(cat("--devices ", devices, ": libtorch sees no CUDA device; use --devices cpu"));
  if (*index > std::numeric_limits<at::DeviceIndex>::max())
    throw Error(cat("--devices: got ", devices, "; there is no CUDA device of that number"));
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(*index));
  try {
    (void)at::zeros({1}, device);
  } catch (const c10::Error& e) {
    throw Error(cat("--devices ", devices, ": ", e.what_without_backtrace()));
  }
  return device;
}

void set_cpu_threads(int64_t threads) {
  if (threads == 0) return;
  require_threads("--cpu-threads", threads);
  at::set_num_threads(static_cast<int>(threads));
}

void limit_cpu_threads() {
  const int64_t usual = at::get_num_threads(), possible = 1 + startable_threads(usual - 1);
  if (possible >= usual) return;
  log::warn(cat("the system lets this process have ", possible, " threads, and there are ", usual,
                " processors; see ulimit -u and the limits of the container"));
  at::set_num_threads(static_cast<int>(possible));
}

}  // namespace fovea::nn
