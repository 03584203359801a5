#include "fovea/kernels/layer/gated.h"

#include <algorithm>
#include <cstring>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/dropout.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/element-inl.h"
#include "fovea/kernels/layer/mask-inl.h"
#include "fovea/kernels/simd/math-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kElements = 1 << 12;  // of a piece, about

// f(a) and its derivative.
struct Activated {
  F value, slope;
};

template <Gate kGate>
inline Activated activated(F a) {
  if constexpr (kGate == Gate::kGelu) {
    const Normal of = normal(a);
    return {a * of.cdf, fma(a * set(0.398942280F), of.bell, of.cdf)};  // 1 / sqrt(2 pi)
  } else if constexpr (kGate == Gate::kGeluTanh) {
    // (1 + tanh u) / 2 is sigmoid(2 u), and 2 u = a (c + d a^2) with c = 2 sqrt(2 / pi), d = 0.044715 c. Beyond 12,
    // where a^2 might overflow, the sigmoid is 0 or 1 in float.
    const F near = min(max(a, set(-12)), set(12)), square = near * near;
    const F open = sigmoid(near * fma(set(0.0713548163F), square, set(1.59576912F)));
    return {a * open, fma(a * open * (set(1) - open), fma(set(0.214064449F), square, set(1.59576912F)), open)};
  } else {
    const F open = sigmoid(a);
    return {a * open, open * fma(a, set(1) - open, set(1))};
  }
}

template <Gate kGate, Units kUnits, class T>
void unit_row(const GatedForward<T>& job, int64_t r, Mask& mask) {
  const T* a = job.x + r * job.x_stride;
  const int64_t begin = r * job.width;
  for (int64_t i = 0; i < job.width; i += kLanes) {
    const int64_t n = job.width - i;
    F out = activated<kGate>(load_some(a + i, n)).value;
    if constexpr (kUnits == Units::kGated) out = out * load_some(a + job.width + i, n);
    store_some(job.out + begin + i, mask.apply(out, begin + i), n);
  }
}

template <Gate kGate, Units kUnits, class T>
void unit_row(const GatedBackward<T>& job, int64_t r, Mask& mask) {
  constexpr int64_t kParts = kUnits == Units::kGated ? 2 : 1;
  const T* a = job.x + r * job.x_stride;
  const int64_t begin = r * job.width;
  T* grad_a = job.grad_x + kParts * begin;
  for (int64_t i = 0; i < job.width; i += kLanes) {
    const int64_t n = job.width - i;
    const F grad = mask.apply(load_some(job.grad_out + begin + i, n), begin + i);
    const Activated of = activated<kGate>(load_some(a + i, n));
    if constexpr (kUnits == Units::kGated) {
      store_some(grad_a + i, grad * load_some(a + job.width + i, n) * of.slope, n);
      store_some(grad_a + job.width + i, grad * of.value, n);
    } else {
      store_some(grad_a + i, grad * of.slope, n);
    }
  }
}

template <Gate kGate, Units kUnits, class Job>
void run_rows(const Job& job, Executor& executor) {
  const int64_t rows = std::max<int64_t>(1, kElements / job.width);
  executor.run((job.rows + rows - 1) / rows, [&](int64_t piece, int) {
    Mask mask(job.dropout);
    for (int64_t r = piece * rows; r < std::min((piece + 1) * rows, job.rows); ++r)
      unit_row<kGate, kUnits>(job, r, mask);
  });
}

template <Gate kGate, class Job>
void run_units(const Job& job, Executor& executor) {
  if (job.units == Units::kGated) return run_rows<kGate, Units::kGated>(job, executor);
  run_rows<kGate, Units::kPlain>(job, executor);
}

template <class Job>
void run_job(const Job& job, Executor& executor) {
  if (job.width == 0) return;
  if (job.gate == Gate::kGelu) return run_units<Gate::kGelu>(job, executor);
  if (job.gate == Gate::kGeluTanh) return run_units<Gate::kGeluTanh>(job, executor);
  run_units<Gate::kSilu>(job, executor);
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, GatedForward<float>>;
template struct AtLevel<kThisIsa, GatedForward<uint16_t>>;
template struct AtLevel<kThisIsa, GatedBackward<float>>;
template struct AtLevel<kThisIsa, GatedBackward<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
