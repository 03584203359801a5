#pragma once
#include "fovea/kernels/simd/simd_x86-inl.h"

// simd-inl.h for AVX-512.
namespace fovea::kernels {
namespace {

constexpr int kLanes = 16;
using F = __m512;
using I = int32_t __attribute__((vector_size(64)));
using U = uint32_t __attribute__((vector_size(64)));
using M = __mmask16;

inline F set(float x) { return _mm512_set1_ps(x); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline M first(int64_t n) { return n >= kLanes ? M(0xffff) : n <= 0 ? M(0) : static_cast<M>((1U << n) - 1); }
inline F load_part(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
inline void store_part(float* p, F v, int64_t n) { _mm512_mask_storeu_ps(p, first(n), v); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F sqrt(F a) { return _mm512_sqrt_ps(a); }
inline F abs(F a) { return _mm512_abs_ps(a); }

inline M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline M less_equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
inline M is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
inline M less(U a, U b) { return _mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b); }
inline M both(M a, M b) { return a & b; }
inline M either(M a, M b) { return a | b; }
inline uint32_t bits(M m) { return m; }
inline M from_bits(uint32_t b) { return static_cast<M>(b); }
inline F select(M m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }

inline I set_int(int32_t x) { return (I)_mm512_set1_epi32(x); }
inline U set_uint(uint32_t x) { return (U)_mm512_set1_epi32(static_cast<int32_t>(x)); }
inline I iota() { return (I)_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
inline I to_int(F a) { return (I)_mm512_cvtps_epi32(a); }
inline F to_float(I a) { return _mm512_cvtepi32_ps((__m512i)a); }
inline I as_int(F a) { return (I)_mm512_castps_si512(a); }
inline F as_float(I a) { return _mm512_castsi512_ps((__m512i)a); }
inline I load_int(const int32_t* p) { return (I)_mm512_loadu_si512(p); }
inline void store_int(int32_t* p, I v) { _mm512_storeu_si512(p, (__m512i)v); }

// The lanes of bits `b`, in order, to p[0 ...]; returns how many. May write up to p + kLanes.
inline int compress_store(int32_t* p, uint32_t b, I v) {
  const __m512i kept = _mm512_maskz_compress_epi32(from_bits(b), (__m512i)v);
  const int count = __builtin_popcount(b);
  // A whole vector's store nearly always crosses a line of the cache, which takes several times as long.
  if (count <= 4) {
    _mm_storeu_si128((__m128i*)p, _mm512_castsi512_si128(kept));
  } else {
    _mm512_storeu_si512(p, kept);
  }
  return count;
}
inline int compress_store(float* p, uint32_t b, F v) {
  return compress_store(reinterpret_cast<int32_t*>(p), b, as_int(v));
}

inline float sum(F v) { return _mm512_reduce_add_ps(v); }
// The sums of four vectors, times factor, to out[0 ... 3].
inline void sums(F a, F b, F c, F d, float factor, float* out) {
  const auto fold = [](F v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); };
  sums_of_eights(fold(a), fold(b), fold(c), fold(d), factor, out);
}
// NaN in any lane gives NaN or the greatest of the others.
inline float greatest(F v) { return _mm512_reduce_max_ps(v); }

inline F load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
// To the nearest, ties to even; NaN stays NaN.
inline void store_bf16(uint16_t* p, F v) {
  const __m512i x = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i kept = _mm512_mask_blend_epi32(is_nan(v), rounded, _mm512_set1_epi32(0x7fc00000));
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
}

// 2^n times a, n whole; right below the normal range too.
inline F scale_by_power(F a, F n) { return _mm512_scalef_ps(a, n); }
// a = m 2^e, m in [1, 2), for positive finite a.
inline F mantissa(F a) { return _mm512_getmant_ps(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src); }
inline F exponent(F a) { return _mm512_getexp_ps(a); }

}  // namespace
}  // namespace fovea::kernels
