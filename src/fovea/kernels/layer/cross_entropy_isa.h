#pragma once
#include "fovea/kernels/layer/cross_entropy.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// cross_entropy.h at one instruction-set level.
template <Isa kLevel>
struct CrossEntropies {
  static void run(const CrossEntropyJob<float>& job, Executor& executor);
  static void run(const CrossEntropyJob<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
