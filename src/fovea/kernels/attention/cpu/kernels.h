#pragma once
#include <span>

#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

// Over fewer keys a sequence's whole score rows stay in the nearest cache, and cpu-rows is the fastest.
constexpr int64_t kManyKeys = 256;

// The kernels of this folder, fastest first.
std::span<const Kernel> cpu_kernels();

}  // namespace fovea::kernels
