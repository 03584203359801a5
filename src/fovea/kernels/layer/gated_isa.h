#pragma once
#include "fovea/kernels/layer/gated.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// gated.h at one instruction-set level.
template <Isa kLevel>
struct GatedUnits {
  static void run(const GatedForward<float>& job, Executor& executor);
  static void run(const GatedForward<uint16_t>& job, Executor& executor);
  static void run(const GatedBackward<float>& job, Executor& executor);
  static void run(const GatedBackward<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
