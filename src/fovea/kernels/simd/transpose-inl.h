#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// A square of kLanes vectors, turned in place.
namespace fovea::kernels {
namespace {

#if FOVEA_AVX512
// 16 x 16 in registers: pairs, quads, then 128-bit lanes.
inline void transpose(F* rows) {
  F a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const auto pair = [&](int j) { return _mm512_castps_pd(a[i + j]); };
    b[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair(0), pair(2)));
    b[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair(0), pair(2)));
    b[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair(1), pair(3)));
    b[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair(1), pair(3)));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const F low0 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88), high0 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
    const F low1 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
    const F high1 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
    rows[i] = _mm512_shuffle_f32x4(low0, low1, 0x88);
    rows[4 + i] = _mm512_shuffle_f32x4(high0, high1, 0x88);
    rows[8 + i] = _mm512_shuffle_f32x4(low0, low1, 0xdd);
    rows[12 + i] = _mm512_shuffle_f32x4(high0, high1, 0xdd);
  }
}
#elif FOVEA_ISA == 1
inline void transpose(F* rows) {
  F a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
    rows[4 + i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
  }
}
#elif FOVEA_NEON
inline void transpose(F* rows) {
  const F a = vzip1q_f32(rows[0], rows[2]), b = vzip2q_f32(rows[0], rows[2]);
  const F c = vzip1q_f32(rows[1], rows[3]), d = vzip2q_f32(rows[1], rows[3]);
  rows[0] = vzip1q_f32(a, c);
  rows[1] = vzip2q_f32(a, c);
  rows[2] = vzip1q_f32(b, d);
  rows[3] = vzip2q_f32(b, d);
}
#else
inline void transpose(F* rows) {
  float square[kLanes][kLanes];
  for (int i = 0; i < kLanes; ++i) store(square[i], rows[i]);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) rows[i][j] = square[j][i];
  }
}
#endif

}  // namespace
}  // namespace fovea::kernels
