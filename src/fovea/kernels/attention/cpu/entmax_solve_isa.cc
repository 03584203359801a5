#include "fovea/kernels/attention/cpu/entmax_solve.h"

#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/isa.h"
// Standard headers end here.
#include "fovea/kernels/attention/cpu/isa_begin-inl.h"
#include "fovea/kernels/attention/cpu/simd-inl.h"

namespace fovea::kernels {
namespace {

// log2 of positive normal numbers; error below 2^-23 where the result is small, else of the result's last place:
// 2 / ln 2 atanh((m - 1) / (m + 1)) for m in [sqrt(1/2), sqrt(2)).
F log2(F x) {
  F m = mantissa(x), e = exponent(x);
  const M high = less(set(1.41421356F), m);
  m = select(high, m * set(0.5F), m);
  e = select(high, e + set(1), e);
  const F t = (m - set(1)) / (m + set(1)), t2 = t * t;
  F p = set(0.3205988979F);  // 2 / (9 ln 2)
  p = fma(p, t2, set(0.4121985831F));
  p = fma(p, t2, set(0.5770780164F));
  p = fma(p, t2, set(0.9617966939F));
  p = fma(p, t2, set(2.8853900818F));
  return fma(p, t, e);
}

// x^c for x in [0, 1 + tiny]; 0 stays 0.
F power_of(F x, float c) {
  const F safe = max(x, set(0x1p-120F));
  return select(less(set(0), x), exp2(set(c) * log2(safe)), set(0));
}

struct Sums {
  float whole = 0;  // of [z - tau]^c
  float lower = 0;  // of [z - tau]^(c - 1)
};

// values are shifted: z = (v - top) scale.
template <int kKind>  // 1 sparsemax, 2 entmax(1.5), 0 any
Sums sums(float c, const float* values, int64_t count, float top, float scale, float tau) {
  F whole = set(0), lower = set(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F z = (load(values + i) - set(top)) * set(scale);
    const F x = max(z - set(tau), set(0));
    if constexpr (kKind == 1) {
      whole = whole + x;
      lower = lower + select(less(set(0), x), set(1), set(0));
    } else if constexpr (kKind == 2) {
      whole = fma(x, x, whole);
      lower = lower + x;
    } else {
      const F y = power_of(x, c - 1);
      whole = fma(x, y, whole);
      lower = lower + y;
    }
  }
  return {sum(whole), sum(lower)};
}

// The root of sum [z - tau]^c = 1 from the left. For c >= 1 the sum is convex in tau, so that Newton's steps pass the
// root by no more than rounding; for c < 1 they are kept between bounds.
template <int kKind>
float solve(float c, const float* values, int64_t count, float top, float scale, int rounds) {
  float low = -1, high = 0, tau = low;
  for (int round = 0; round < rounds; ++round) {
    const Sums s = sums<kKind>(c, values, count, top, scale, tau);
    const float excess = s.whole - 1, step = excess / (c * s.lower);
    float next = tau + step;
    if (c >= 1) {
      if (!(step > 0x1p-26F)) return tau;
      tau = next;
      continue;
    }
    (excess >= 0 ? low : high) = tau;
    if (!(next > low && next < high)) next = low + (high - low) / 2;
    if (!(next > low && next < high)) break;
    tau = next;
  }
  return c >= 1 ? tau : low;
}

}  // namespace

template <class Tag>
float EntmaxSolve<Tag>::tau(EntmaxPower power, float* values, int64_t count, float unit, int rounds) {
  store(values + count, set(-kInfinity));
  F high = set(-kInfinity);
  for (int64_t i = 0; i < count; i += kLanes) high = max(high, load(values + i));
  const float top = greatest(high), scale = unit * power.slope;
  if (power.c == 1) return solve<1>(1, values, count, top, scale, rounds);
  if (power.c == 2) return solve<2>(2, values, count, top, scale, rounds);
  return solve<0>(power.c, values, count, top, scale, rounds);
}

template <class Tag>
void EntmaxSolve<Tag>::weights(EntmaxPower power, float* values, int64_t count, float center, float tau) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const F x = (load(values + i) - set(center)) * set(power.slope) - set(tau);
    F weight = select(less(set(0), x), x, set(0));
    if (power.c == 2) weight = weight * weight;
    if (power.c != 1 && power.c != 2) weight = power_of(weight, power.c);
    store(values + i, select(is_nan(x), x, weight));
  }
}

template <class Tag>
void EntmaxSolve<Tag>::derivatives(EntmaxPower power, const float* weights, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const F weight = load(weights + i);
    F value = select(less(set(0), weight), set(1), set(0));
    if (power.c == 2) value = sqrt(max(weight, set(0)));
    if (power.c != 1 && power.c != 2) value = power_of(weight, 1 - power.slope);
    store(out + i, select(is_nan(weight), weight, value));
  }
}

template struct EntmaxSolve<IsaTag<kThisIsa>>;

}  // namespace fovea::kernels
#include "fovea/kernels/attention/cpu/isa_end-inl.h"
