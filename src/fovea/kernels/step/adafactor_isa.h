#pragma once
#include "fovea/kernels/simd/isa.h"
#include "fovea/kernels/step/adafactor.h"

namespace fovea::kernels {

// adafactor.h at one instruction-set level.
template <Isa kLevel>
struct Adafactors {
  static void run(const AdafactorPass& job, Executor& executor);
};

}  // namespace fovea::kernels
