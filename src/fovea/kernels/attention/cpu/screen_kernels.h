#pragma once
#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

extern const Kernel kTopkKernel, kEntmaxKernel;

}  // namespace fovea::kernels
