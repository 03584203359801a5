#pragma once
#include "fovea/base/executor.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// A job of this folder at one instruction-set level. Each *_isa.cc defines run() for its own jobs and instantiates it;
// at_level.cc chooses the level. A few jobs are two structs that go together.
template <Isa kLevel, class... Job>
struct AtLevel {
  static void run(const Job&... job, Executor& executor);
};

}  // namespace fovea::kernels
