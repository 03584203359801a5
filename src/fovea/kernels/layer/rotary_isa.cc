#include "fovea/kernels/layer/rotary.h"

#include <algorithm>
#include <cstring>

#include "fovea/kernels/layer/at_level.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/element-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kTokens = 32;  // of a piece

// x and out may be the same head.
template <Turn kTurn, class T>
inline void turn_head(const T* x, T* out, const float* angles, int64_t half) {
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t n = half - i;
    const F cosine = load_some(angles + i, n), sine = load_some(angles + half + i, n);
    const F a = load_some(x + i, n), b = load_some(x + half + i, n);
    if constexpr (kTurn == Turn::kForward) {
      store_some(out + i, fnma(b, sine, a * cosine), n);
      store_some(out + half + i, fma(a, sine, b * cosine), n);
    } else {
      store_some(out + i, fma(b, sine, a * cosine), n);
      store_some(out + half + i, fnma(a, sine, b * cosine), n);
    }
  }
}

template <Turn kTurn, class T>
void turn_all(const RotaryPass<T>& job, Executor& executor) {
  executor.run((job.tokens + kTokens - 1) / kTokens, [&](int64_t piece, int) {
    for (int64_t t = piece * kTokens; t < std::min((piece + 1) * kTokens, job.tokens); ++t) {
      const float* angles = job.angles + job.positions[t] * job.head_dim;
      const T* x = job.x.data + t * job.x.token_stride;
      T* out = job.out.data + t * job.out.token_stride;
      for (int64_t h = 0; h < job.heads; ++h) {
        turn_head<kTurn>(x + h * job.x.head_stride, out + h * job.out.head_stride, angles, job.head_dim / 2);
      }
    }
  });
}

template <class T>
void run_job(const RotaryPass<T>& job, Executor& executor) {
  if (job.turn == Turn::kForward) return turn_all<Turn::kForward>(job, executor);
  turn_all<Turn::kBack>(job, executor);
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, RotaryPass<float>>;
template struct AtLevel<kThisIsa, RotaryPass<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
