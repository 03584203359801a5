#pragma once
// Include isa.h, <cstdint> and <cstring> before.
// Vectors of floats at the level FOVEA_ISA, between isa_begin-inl.h and isa_end-inl.h only.
//   F, I, U  kLanes floats, ints, unsigned ints; + - * / & | << >> work on them, casts (I)f reinterpret
//   M        a mask, one truth per lane
// Comparisons with NaN are false; max and min give the second argument when either is NaN.
#if FOVEA_AVX512
#include "fovea/kernels/simd/simd_avx512-inl.h"
#elif FOVEA_ISA == 1
#include "fovea/kernels/simd/simd_avx2-inl.h"
#elif FOVEA_NEON
#include "fovea/kernels/simd/simd_neon-inl.h"
#else
#include "fovea/kernels/simd/simd_portable-inl.h"
#endif

namespace fovea::kernels {
namespace {

#if defined(FOVEA_TILES)
constexpr Isa kThisIsa = FOVEA_TILES == 1 ? Isa::kAvx512Amx : Isa::kAmxEmulated;
#else
constexpr Isa kThisIsa = static_cast<Isa>(FOVEA_ISA);
#endif
// Whether vectors multiply pairs of bfloat16; tiles, where they are, do that in their place.
constexpr bool kBf16Pairs = kThisIsa == Isa::kAvx512Bf16 || kThisIsa == Isa::kNeonBf16;
// Whether there are 32 registers of vectors; else there are 16.
constexpr bool kManyRegisters = kLanes == 16 || FOVEA_NEON;
constexpr float kInfinity = __builtin_huge_valf();
constexpr float kLowest = -3.4028234e38F;  // of the finite ones

// 2^x. |error| < 2 ulp; below -150 zero (to -inf), above 128 infinity, NaN stays.
inline F exp2(F x) {
  const F bounded = min(set(130.0F), max(set(-152.0F), x));  // NaN: max and min give the second, x
  const F whole = round(bounded);
  const F t = bounded - whole;  // in [-0.5, 0.5]
  // Minimax of 2^t on [-0.5, 0.5], degree 6: relative error below 2^-27.
  F p = set(1.5353362e-4F);
  p = fma(p, t, set(1.3398874e-3F));
  p = fma(p, t, set(9.6184373e-3F));
  p = fma(p, t, set(5.5503324e-2F));
  p = fma(p, t, set(2.4022648e-1F));
  p = fma(p, t, set(6.9314720e-1F));
  p = fma(p, t, set(1.0F));
  return scale_by_power(p, whole);
}

// e^(x - whole log(2)) for whole near x log2(e), a few ulp: log(2) in two parts keeps that at |x| of 80.
inline F exp_rest(F x, F whole) {
  F t = fnma(whole, set(0.693359375F), x);
  t = fnma(whole, set(-2.12194440e-4F), t);  // in [-log(2)/2, log(2)/2]
  F p = set(1.9875691500e-4F);
  p = fma(p, t, set(1.3981999507e-3F));
  p = fma(p, t, set(8.3334519073e-3F));
  p = fma(p, t, set(4.1665795894e-2F));
  p = fma(p, t, set(1.6666665459e-1F));
  p = fma(p, t, set(5.0000001201e-1F));
  return fma(p, t * t, t + set(1.0F));
}

// e^x for x <= 88 (or NaN). Below -87.7 zero: numbers under the normal range would take processors several times as
// long in all that follows.
inline F exp_below_one(F x) {
  constexpr float kShift = 12583039.0F;   // 1.5 2^23 + 127: the last bits of the sum are those of 2^whole's exponent
  const F bounded = max(set(-88.0F), x);  // whole is -127 there, whose exponent's bits are zero's
  const F shifted = fma(bounded, set(1.44269504F), set(kShift));
  const F whole = shifted - set(kShift);
  return exp_rest(bounded, whole) * as_float((I)((U)as_int(shifted) << 23));
}

// e^x for any x, right below the normal range too.
inline F exp(F x) {
  const F bounded = min(set(89.0F), max(set(-105.0F), x));
  const F whole = round(bounded * set(1.44269504F));
  return scale_by_power(exp_rest(bounded, whole), whole);
}

}  // namespace
}  // namespace fovea::kernels
