#pragma once
#include "fovea/kernels/simd/simd_x86-inl.h"

// simd-inl.h for AVX2 with FMA.
namespace fovea::kernels {
namespace {

constexpr int kLanes = 8;
using F = __m256;
using I = int32_t __attribute__((vector_size(32)));
using U = uint32_t __attribute__((vector_size(32)));
// All bits of a lane set or none.
struct M {
  __m256 v;
};

inline F set(float x) { return _mm256_set1_ps(x); }
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F v) { _mm256_storeu_ps(p, v); }
inline I set_int(int32_t x) { return (I)_mm256_set1_epi32(x); }
inline U set_uint(uint32_t x) { return (U)_mm256_set1_epi32(static_cast<int32_t>(x)); }
inline I iota() { return (I)_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
inline M first(int64_t n) {
  const int32_t count = static_cast<int32_t>(n < 0 ? 0 : n > kLanes ? kLanes : n);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), (__m256i)iota()))};
}
inline F load_part(const float* p, int64_t n) { return _mm256_maskload_ps(p, _mm256_castps_si256(first(n).v)); }
inline void store_part(float* p, F v, int64_t n) { _mm256_maskstore_ps(p, _mm256_castps_si256(first(n).v), v); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F sqrt(F a) { return _mm256_sqrt_ps(a); }
inline F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }

inline M less(F a, F b) { return {_mm256_cmp_ps(a, b, _CMP_LT_OQ)}; }
inline M less_equal(F a, F b) { return {_mm256_cmp_ps(a, b, _CMP_LE_OQ)}; }
inline M is_nan(F a) { return {_mm256_cmp_ps(a, a, _CMP_UNORD_Q)}; }
inline M less(U a, U b) { return {(F)(a < b)}; }
inline M both(M a, M b) { return {_mm256_and_ps(a.v, b.v)}; }
inline M either(M a, M b) { return {_mm256_or_ps(a.v, b.v)}; }
inline uint32_t bits(M m) { return static_cast<uint32_t>(_mm256_movemask_ps(m.v)); }
inline F select(M m, F yes, F no) { return _mm256_blendv_ps(no, yes, m.v); }

inline I to_int(F a) { return (I)_mm256_cvtps_epi32(a); }
inline F to_float(I a) { return _mm256_cvtepi32_ps((__m256i)a); }
inline I as_int(F a) { return (I)_mm256_castps_si256(a); }
inline F as_float(I a) { return _mm256_castsi256_ps((__m256i)a); }
inline I load_int(const int32_t* p) { return (I)_mm256_loadu_si256((const __m256i*)p); }
inline void store_int(int32_t* p, I v) { _mm256_storeu_si256((__m256i*)p, (__m256i)v); }

// For every set of lanes their indices, in order: what vpermps needs to bring them to the front.
struct FrontLanes {
  uint8_t of[256][8] = {};
  constexpr FrontLanes() {
    for (int set = 0; set < 256; ++set) {
      int count = 0;
      for (int lane = 0; lane < 8; ++lane) {
        if ((set >> lane & 1) != 0) of[set][count++] = static_cast<uint8_t>(lane);
      }
    }
  }
};
inline constexpr FrontLanes kFrontLanes;

// The lanes of bits `b`, in order, to p[0 ...]; returns how many. May write up to p + kLanes.
inline int compress_store(float* p, uint32_t b, F v) {
  const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)kFrontLanes.of[b]));
  store(p, _mm256_permutevar8x32_ps(v, order));
  return __builtin_popcount(b);
}
inline int compress_store(int32_t* p, uint32_t b, I v) {
  const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)kFrontLanes.of[b]));
  store_int(p, (I)_mm256_permutevar8x32_epi32((__m256i)v, order));
  return __builtin_popcount(b);
}

inline float sum(F v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// The sums of four vectors, times factor, to out[0 ... 3].
inline void sums(F a, F b, F c, F d, float factor, float* out) { sums_of_eights(a, b, c, d, factor, out); }
// NaN in any lane gives NaN or the greatest of the others.
inline float greatest(F v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline F load_bf16(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
// To the nearest, ties to even; NaN stays NaN.
inline void store_bf16(uint16_t* p, F v) {
  const U x = (U)v;
  const U rounded = (x + 0x7fffU + ((x >> 16) & 1U)) >> 16;
  const U kept = (U)_mm256_blendv_ps((F)rounded, (F)set_uint(0x7fc0), is_nan(v).v);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)kept, (__m256i)kept), 0x08);
  _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(packed));
}

// 2^n times a, n whole in [-252, 254]; right below the normal range too: two factors, each a normal number.
inline F scale_by_power(F a, F n) {
  const I whole = to_int(min(max(n, set(-252.0F)), set(254.0F)));
  const I half = whole >> 1;
  return a * as_float((half + 127) << 23) * as_float((whole - half + 127) << 23);
}
// a = m 2^e, m in [1, 2), for positive normal a.
inline F mantissa(F a) { return as_float((as_int(a) & 0x007fffff) | 0x3f800000); }
inline F exponent(F a) { return to_float((as_int(a) >> 23) - 127); }

}  // namespace
}  // namespace fovea::kernels
