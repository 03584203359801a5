#include "fovea/kernels/step/adafactor.h"

#include "fovea/kernels/step/adafactor_isa.h"

namespace fovea::kernels {

void adafactor(const AdafactorPass& job, Executor& executor) {
  with_isa([&](auto tag) { Adafactors<decltype(tag)::kIsa>::run(job, executor); });
}

}  // namespace fovea::kernels
