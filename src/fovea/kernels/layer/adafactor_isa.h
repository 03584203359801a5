#pragma once
#include "fovea/kernels/layer/adafactor.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// adafactor.h at one instruction-set level.
template <Isa kLevel>
struct Adafactors {
  static void run(const AdafactorPass& job, Executor& executor);
};

}  // namespace fovea::kernels
