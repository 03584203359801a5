#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// log2, powers, the normal distribution and the sigmoid; exp is in simd-inl.h.
namespace fovea::kernels {
namespace {

// log2 of a positive normal number, relative error below 4e-7 (near 1 too); zero and subnormals give about -127.
inline F log2(F x) {
  F m = mantissa(x), e = exponent(x);
  const M high = less(set(1.41421356F), m);
  m = select(high, m * set(0.5F), m);
  e = max(set(-127.0F), select(high, e + set(1.0F), e));
  // log2(m) = 2 log2(e) atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716: odd powers to the ninth.
  const F s = (m - set(1.0F)) / (m + set(1.0F));
  const F q = s * s;
  F p = set(0.320598898F);
  p = fma(p, q, set(0.412198583F));
  p = fma(p, q, set(0.577078016F));
  p = fma(p, q, set(0.961796694F));
  p = fma(p, q, set(2.88539008F));
  return fma(p, s, e);
}

// x^c for x >= 0, 0 for 0; NaN stays.
inline F power(F x, float c) {
  if (c == 1.0F) return x;
  if (c == 2.0F) return x * x;
  const F value = exp2(log2(x) * set(c));
  return select(less_equal(x, set(0)), set(0), select(is_nan(x), x, value));
}

// Phi(s) of the standard normal distribution, and e^(-s^2 / 2) on the way. Relative error a few 1e-7, in the lower tail
// too: erfc(x) = t e^(-x^2) R(t), t = 1 / (1 + x / 2), R a least-squares fit of degree 9 (2e-8).
struct Normal {
  F cdf, bell;
};
inline Normal normal(F s) {
  const F x = abs(s) * set(0.707106781F);
  const F t = set(1.0F) / fma(x, set(0.5F), set(1.0F));
  F r = set(0.012284058F);
  r = fma(r, t, set(-0.123255604F));
  r = fma(r, t, set(0.428930376F));
  r = fma(r, t, set(-0.670024859F));
  r = fma(r, t, set(0.421276054F));
  r = fma(r, t, set(-0.0983184832F));
  r = fma(r, t, set(0.225542111F));
  r = fma(r, t, set(0.238644788F));
  r = fma(r, t, set(0.282857041F));
  r = fma(r, t, set(0.282064499F));
  const F bell = exp_below_one(s * s * set(-0.5F));
  const F tail = set(0.5F) * t * bell * r;
  return {select(less(set(0), s), set(1.0F) - tail, tail), bell};
}

inline F sigmoid(F x) { return set(1) / (set(1) + exp(set(0) - x)); }

}  // namespace
}  // namespace fovea::kernels
