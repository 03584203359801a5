#pragma once
#include "fovea/kernels/layer/rotary.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// rotary.h at one instruction-set level.
template <Isa kLevel>
struct Rotations {
  static void run(const RotaryPass<float>& job, Executor& executor);
  static void run(const RotaryPass<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
