#pragma once
#include "fovea/kernels/simd/isa.h"
#include "fovea/kernels/step/rotary.h"

namespace fovea::kernels {

// rotary.h at one instruction-set level.
template <Isa kLevel>
struct Rotations {
  static void run(const RotaryPass<float>& job, Executor& executor);
  static void run(const RotaryPass<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
