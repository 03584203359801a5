#pragma once
#include "fovea/kernels/layer/norm.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// norm.h at one instruction-set level.
template <Isa kLevel>
struct Norms {
  static void run(const NormForward<float>& job, Executor& executor);
  static void run(const NormForward<uint16_t>& job, Executor& executor);
  static void run(const NormBackward<float>& job, Executor& executor);
  static void run(const NormBackward<uint16_t>& job, Executor& executor);
  static void run(const DropoutPass<float>& job, Executor& executor);
  static void run(const DropoutPass<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
