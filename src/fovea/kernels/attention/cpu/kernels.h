#pragma once
#include <span>

#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

// The kernels of this folder, fastest first.
std::span<const Kernel> cpu_kernels();

}  // namespace fovea::kernels
