#include "fovea/kernels/attention/cpu/kernels.h"

#include <vector>

#include "fovea/kernels/attention/cpu/rows.h"

namespace fovea::kernels {

std::span<const Kernel> cpu_kernels() {
  static const std::vector<Kernel> kernels = {kRowsKernel};
  return kernels;
}

}  // namespace fovea::kernels
