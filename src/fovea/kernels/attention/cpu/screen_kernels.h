#pragma once
#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

// kLong refuses problems with so few keys that other kernels are faster.
enum class Lengths : uint8_t { kAny, kLong };

Kernel topk_kernel(Lengths lengths = Lengths::kLong);
Kernel entmax_kernel(Lengths lengths = Lengths::kLong);

}  // namespace fovea::kernels
