#include "fovea/kernels/attention/cpu/kernels.h"

#include <vector>

#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/screen_attention.h"

namespace fovea::kernels {

std::span<const Kernel> cpu_kernels() {
  static const std::vector<Kernel> kAll = {kTopkKernel, kEntmaxKernel, kDenseKernel, kRowsKernel};
  return kAll;
}

}  // namespace fovea::kernels
