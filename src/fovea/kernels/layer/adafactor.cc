#include "fovea/kernels/layer/adafactor.h"

#include "fovea/kernels/layer/adafactor_isa.h"

namespace fovea::kernels {

void adafactor(const AdafactorPass& job, Executor& executor) {
  with_isa([&](auto tag) { Adafactors<decltype(tag)::kIsa>::run(job, executor); });
}

}  // namespace fovea::kernels
