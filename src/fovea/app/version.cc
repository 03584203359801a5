#include "fovea/app/version.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "fovea/base/strings.h"

namespace fovea::app {

std::string build_info() {
  return cat("(libtorch ", TORCH_VERSION, ", ", at::get_cpu_capability(), ", ",
             at::hasCUDA() ? "CUDA" : "no CUDA device", ")");
}

}  // namespace fovea::app
