#pragma once
#include "fovea/kernels/simd/isa.h"
#include "fovea/kernels/step/cross_entropy.h"

namespace fovea::kernels {

// cross_entropy.h at one instruction-set level.
template <Isa kLevel>
struct CrossEntropies {
  static void run(const CrossEntropyJob<float>& job, Executor& executor);
  static void run(const CrossEntropyJob<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
