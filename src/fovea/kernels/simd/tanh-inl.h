#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// The hyperbolic tangent, and a soft cap made of it.
namespace fovea::kernels {
namespace {

struct Tanh {
  F value, slope;  // slope: 1 - value^2
};

// Relative errors of a few 2^-24, also near 0 and, of the slope, where the value is nearly 1. Beyond 20 the slope is 0,
// so that gradients do not leave float's normal range. NaN stays.
inline Tanh tanh(F x) {
  constexpr float kEnd = 20;
  const F size = abs(x), square = x * x;
  // Below 0.625: x + x^3 P(x^2), the minimax polynomial of Cephes' tanhf.
  F p = set(-5.70498872745e-3F);
  p = fma(p, square, set(2.06390887954e-2F));
  p = fma(p, square, set(-5.37397155531e-2F));
  p = fma(p, square, set(1.33314422036e-1F));
  p = fma(p, square, set(-3.33332819422e-1F));
  const F near = fma(p * square, x, x);
  // Else 1 - r and r (2 - r) with r = 2 / (e^(2 |x|) + 1).
  const F rest = set(2.0F) / (exp_below_one(min(set(kEnd), size) * set(2.0F)) + set(1.0F));
  const F far = set(1.0F) - rest;
  const M is_near = less(size, set(0.625F));
  const F slope = select(is_near, fnma(near, near, set(1.0F)), rest * (set(2.0F) - rest));
  return {select(is_near, near, select(less(x, set(0)), set(0) - far, far)),
          select(less(set(kEnd), size), set(0), slope)};
}

// c tanh(x / c), and the derivative.
struct SoftCap {
  explicit SoftCap(double c) : cap(static_cast<float>(c)) {}
  Tanh operator()(F x) const {
    // A factor 1 / c would have a rounding error that all numbers share, so that their sums have it too.
    const Tanh share = tanh(x / set(cap));
    return {share.value * set(cap), share.slope};
  }
  float cap;
};

}  // namespace
}  // namespace fovea::kernels
