#include "fovea/kernels/attention/cpu/entmax_solve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/entmax-inl.h"

namespace fovea::kernels {

template <Isa kIsa>
float EntmaxSolve<kIsa>::root(EntmaxPower power, const EntmaxScores& row) {
  store(row.values + row.count, set(-kInfinity));
  return with_curve(power, [&](auto curve) { return entmax_root<decltype(curve)::value>(power, row); });
}

template <Isa kIsa>
float EntmaxSolve<kIsa>::blend(EntmaxPower power, const EntmaxScores& row, float root) {
  store(row.values + row.count, set(-kInfinity));
  return with_curve(power, [&](auto curve) { return entmax_blend<decltype(curve)::value>(power, row, root); });
}

template <Isa kIsa>
void EntmaxSolve<kIsa>::weights(EntmaxPower power, const EntmaxScores& row, float root, float blend) {
  with_curve(power, [&](auto curve) {
    const EntmaxRowCurve<decltype(curve)::value> weigh(power, root, blend);
    for (int64_t i = 0; i < row.count; i += kLanes) {
      store(row.values + i, weigh.at(load(row.values + i) - set(row.top)).weight);
    }
  });
}

template <Isa kIsa>
void EntmaxSolve<kIsa>::derivatives(EntmaxPower entmax, const float* weights, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const F weight = i + kLanes <= count ? load(weights + i) : load_part(weights + i, count - i);
    F value = select(less(set(0), weight), set(1), set(0));
    if (entmax.c == 2) value = sqrt(max(weight, set(0)));
    if (entmax.c != 1 && entmax.c != 2) value = entmax_derivative(entmax, weight);
    store(out + i, select(is_nan(weight), weight, value));
  }
}

template struct EntmaxSolve<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
