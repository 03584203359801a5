#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {
namespace {

#if FOVEA_ISA != 1
F partial_dot(const float* x, const float* row, int64_t width) {
  F total = load(x) * load(row);
  for (int64_t i = kLanes; i < width; i += kLanes) total = fma(load(x + i), load(row + i), total);
  return total;
}
#endif

#if FOVEA_ISA == 1
// A score is always ((l0 + l1) + (l2 + l3)) + ((l4 + l5) + (l6 + l7)) of its lanes, whatever its place in the list.
inline __m128 four_dots(const float* x, const float* rows, int64_t width, const int32_t* list) {
  const float *row0 = rows + list[0] * width, *row1 = rows + list[1] * width;
  const float *row2 = rows + list[2] * width, *row3 = rows + list[3] * width;
  F sum0 = set(0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t i = 0; i < width; i += kLanes) {
    const F part = load(x + i);
    sum0 = fma(part, load(row0 + i), sum0);
    sum1 = fma(part, load(row1 + i), sum1);
    sum2 = fma(part, load(row2 + i), sum2);
    sum3 = fma(part, load(row3 + i), sum3);
  }
  const F quarters = _mm256_hadd_ps(_mm256_hadd_ps(sum0, sum1), _mm256_hadd_ps(sum2, sum3));
  return _mm_add_ps(_mm256_castps256_ps128(quarters), _mm256_extractf128_ps(quarters, 1));
}
#elif FOVEA_NEON
// A score is always (l0 + l1) + (l2 + l3) of its lanes, whatever its place in the list.
inline F four_dots(const float* x, const float* rows, int64_t width, const int32_t* list) {
  F v[4];
  for (int i = 0; i < 4; ++i) v[i] = partial_dot(x, rows + list[i] * width, width);
  return vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
}
#elif FOVEA_AVX512
// Sums of the lanes of 16 vectors, in the order of the vectors: always (l, l + 8), then (l, l + 4), (l, l + 2), (l,
// l + 1), so that a score does not depend on its place in the list.
inline F halves(F a, F b) { return _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee); }
inline F quarters(F a, F b) { return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd); }
inline F eighths(F a, F b) { return _mm512_shuffle_ps(a, b, 0x44) + _mm512_shuffle_ps(a, b, 0xee); }
inline F sixteenths(F a, F b) { return _mm512_shuffle_ps(a, b, 0x88) + _mm512_shuffle_ps(a, b, 0xdd); }

// Dot products of x with four listed rows. Lanes 4 b ... 4 b + 3 hold partial sums of the row list[b * stride].
inline F four_dots(const float* x, const float* rows, int64_t width, const int32_t* list, int stride) {
  F v[4];
  for (int i = 0; i < 4; ++i) v[i] = partial_dot(x, rows + list[i * stride] * width, width);
  return quarters(halves(v[0], v[1]), halves(v[2], v[3]));
}
inline F sixteen_dots(const float* x, const float* rows, int64_t width, const int32_t* list) {
  const F a = four_dots(x, rows, width, list, 4), b = four_dots(x, rows, width, list + 1, 4);
  const F c = four_dots(x, rows, width, list + 2, 4), d = four_dots(x, rows, width, list + 3, 4);
  return sixteenths(eighths(a, b), eighths(c, d));
}
#endif

// The weighted sum for kVectors vectors of columns, from `column` on.
template <int kVectors>
void weighted_sum_part(const ListedRows& at, int64_t column, const float* weights, float* out) {
  const float* rows = at.rows + column;
  const int64_t width = at.width, count = at.count;
  const int32_t* list = at.list;
  F total[kVectors];
  for (F& one : total) one = set(0);
  for (int64_t i = 0; i < count; ++i) {
    const F weight = set(weights[i]);
    const float* row = rows + list[i] * width;
    for (int v = 0; v < kVectors; ++v) total[v] = fma(weight, load(row + v * kLanes), total[v]);
  }
  for (int v = 0; v < kVectors; ++v) store(out + column + v * kLanes, total[v]);
}

}  // namespace

template <Isa kIsa>
void ExactRows<kIsa>::fetch(const ListedRows& at) {
  const auto [rows, width, list, count] = at;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = rows + list[i] * width;
    for (int64_t column = 0; column < width; column += 16) __builtin_prefetch(row + column, 0, 2);
  }
}

template <Isa kIsa>
void ExactRows<kIsa>::dots(const ListedRows& at, const float* x, float scale, float* out) {
  const auto [rows, width, list, count] = at;  // copies: what is written might be the structure, for all GCC knows
#if FOVEA_ISA >= 1
  constexpr int64_t kAtOnce = FOVEA_AVX512 ? 16 : 4;
  for (int64_t i = 0; i < count; i += kAtOnce) {
    int32_t last[kAtOnce];
    const int32_t* some = list + i;
    if (i + kAtOnce > count) {
      for (int64_t j = 0; j < kAtOnce; ++j) last[j] = list[i + j < count ? i + j : count - 1];
      some = last;
    }
#if FOVEA_ISA == 1
    _mm_storeu_ps(out + i, _mm_mul_ps(four_dots(x, rows, width, some), _mm_set1_ps(scale)));
#elif FOVEA_NEON
    store(out + i, four_dots(x, rows, width, some) * set(scale));
#else
    store(out + i, sixteen_dots(x, rows, width, some) * set(scale));
#endif
  }
#else
  for (int64_t i = 0; i < count; ++i) {
    out[i] = sum(partial_dot(x, rows + list[i] * width, width)) * scale;
  }
#endif
}

template <Isa kIsa>
void ExactRows<kIsa>::weighted_sum(const ListedRows& at, const float* weights, float* out) {
  constexpr int kMost = kLanes == 16 ? 16 : 8;
  const int64_t width = at.width;
  int64_t column = 0;
  for (; column + kMost * kLanes <= width; column += kMost * kLanes) weighted_sum_part<kMost>(at, column, weights, out);
  for (; column + 4 * kLanes <= width; column += 4 * kLanes) weighted_sum_part<4>(at, column, weights, out);
  for (; column < width; column += kLanes) weighted_sum_part<1>(at, column, weights, out);
}

template <Isa kIsa>
void ExactRows<kIsa>::scatter(const ListedSums& to, const float* weights, const float* x) {
  const auto [rows, width, first, list, count] = to;
  for (int64_t i = 0; i < count; ++i) {
    float* row = rows + (list[i] - first) * width;
    const F weight = set(weights[i]);
    for (int64_t at = 0; at < width; at += kLanes) store(row + at, fma(weight, load(x + at), load(row + at)));
  }
}

template <Isa kIsa>
float ExactRows<kIsa>::exponentials(float* values, int64_t count, float greatest) {
  F total = set(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    F weight = exp_below_one(load(values + i) - set(greatest));
    if (i + kLanes > count) weight = select(first(count - i), weight, set(0));
    store(values + i, weight);
    total = total + weight;
  }
  return sum(total);
}

template struct ExactRows<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
