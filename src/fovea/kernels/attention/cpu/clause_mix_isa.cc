#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/clause_mix.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/scratch.h"
#include "fovea/kernels/attention/dropout.h"

#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/clause_mix_backward-inl.h"
#include "fovea/kernels/attention/cpu/clause_mix_forward-inl.h"

namespace fovea::kernels {

template <Isa kLevel>
int64_t ClauseMixKernel<kLevel>::scratch(const ClauseMixShape& shape, int64_t length, bool backward) {
  Arena arena;
  if (backward) {
    mix_backward_buffers(arena, shape, length);
  } else {
    mix_forward_buffers(arena, shape, length);
  }
  return arena.used();
}
template <Isa kLevel>
void ClauseMixKernel<kLevel>::run(const ClauseMixShape& shape, const ClauseMixForward& job, const ClauseMixTask& task,
                                  float* scratch) {
  MixForwardTask(shape, job, task, scratch).run();
}
template <Isa kLevel>
void ClauseMixKernel<kLevel>::run(const ClauseMixShape& shape, const ClauseMixBackward& job, const ClauseMixTask& task,
                                  float* scratch, double* grad_p) {
  MixBackwardTask(shape, job, task, scratch).run(grad_p);
}
template struct ClauseMixKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
