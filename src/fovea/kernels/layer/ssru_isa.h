#pragma once
#include "fovea/kernels/layer/ssru.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// ssru.h at one instruction-set level.
template <Isa kLevel>
struct SsruUnits {
  static void run(const SsruForward<float>& job, Executor& executor);
  static void run(const SsruForward<uint16_t>& job, Executor& executor);
  static void run(const SsruBackward<float>& job, Executor& executor);
  static void run(const SsruBackward<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
