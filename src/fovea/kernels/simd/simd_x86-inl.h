#pragma once
#include <immintrin.h>

// Shared by simd_avx2-inl.h and simd_avx512-inl.h.
namespace fovea::kernels {
namespace {

// Like sums() of the levels, for vectors of eight.
inline void sums_of_eights(__m256 a, __m256 b, __m256 c, __m256 d, float factor, float* out) {
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const __m256 halves = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const __m128 all = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
  _mm_storeu_ps(out, _mm_mul_ps(all, _mm_set1_ps(factor)));
}

}  // namespace
}  // namespace fovea::kernels
