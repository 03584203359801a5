#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/key_screen.h"
#include "fovea/kernels/attention/cpu/rows.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

#include "fovea/kernels/attention/cpu/key_screen-inl.h"

namespace fovea::kernels {
namespace {

// Reads a key as floats; zeros behind head_dim up to whole vectors.
void read_key(const KeyScreenPack& p, int64_t row, float* out) {
  if (p.is_bf16) {
    const auto* in = static_cast<const uint16_t*>(p.keys) + row * p.stride;
    for (int64_t i = 0; i < p.head_dim; ++i) {
      const uint32_t bits = static_cast<uint32_t>(in[i]) << 16;
      std::memcpy(out + i, &bits, sizeof bits);
    }
  } else {
    const float* in = static_cast<const float*>(p.keys) + row * p.stride;
    std::memcpy(out, in, static_cast<size_t>(p.head_dim) * sizeof(float));
  }
}

// A key far from the others in size, or not finite, has no step: every query scores it exactly.
float step_of(float top, float plain) {
  const float most = top > plain ? top : plain;
  if (most == 0) return 0;
  if (!(most >= kLeastScreened && most <= kMostScreened)) return std::nanf("");
  return std::max(top / 127, plain * kLeastStep);
}

void pack_row(const KeyScreenPack& p, const float* key, const float* centre, int64_t token) {
  const int64_t padded = padded_floats(p.head_dim);
  uint8_t* out = p.rows + token * p.row_stride;
  const Extent plain = extent_of(key, nullptr, padded), centred = extent_of(key, centre, padded);
  const float step = plain.finite && centred.finite ? step_of(centred.top, plain.top) : std::nanf("");
  p.steps[token] = step;
  if (!(step > 0)) {
    std::memset(out, 128, static_cast<size_t>(key_screen_bytes(p.head_dim)));
    return;
  }
  int8_t units[kMaxRowsHeadDim];
  const UnitNorms norms = to_units(key, centre, p.head_dim, {1 / step, key_screen_bytes(p.head_dim)}, units);
  for (int64_t i = 0; i < key_screen_bytes(p.head_dim); ++i) out[i] = static_cast<uint8_t>(units[i] + 128);
  p.extents[0] = std::max(p.extents[0], norms.whole);
  p.extents[1] = std::max(p.extents[1], norms.rest);
  p.extents[2] = std::max(p.extents[2], norm_of(key, nullptr, padded, 1 / step) * (1 + 0x1p-10F));
}

#if FOVEA_NEON
// The sums of four rows, of which u + 128 is turned into u, the signed byte that differs from it in the highest bit.
inline I four_sums(const uint8_t* const* rows, const int8_t* query, int64_t bytes) {
  I total[4] = {set_int(0), set_int(0), set_int(0), set_int(0)};
  const uint8x16_t high_bits = vdupq_n_u8(0x80);
  for (int64_t i = 0; i < bytes; i += 16) {
    const I of_query = (I)vld1q_s8(query + i);
    for (int r = 0; r < 4; ++r) {
      total[r] = add_products((I)veorq_u8(vld1q_u8(rows[r] + i), high_bits), of_query, total[r]);
    }
  }
  const auto pairs = [](I a, I b) { return vpaddq_s32((int32x4_t)a, (int32x4_t)b); };
  return (I)vpaddq_s32(pairs(total[0], total[1]), pairs(total[2], total[3]));
}
#elif FOVEA_ISA >= 1
// 16 products of a row's bytes at a time, of which neighbours are added.
__m256i row_sums(const uint8_t* row, const int16_t* query, int64_t bytes) {
  __m256i total = _mm256_setzero_si256();
  for (int64_t i = 0; i < bytes; i += 16) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)(row + i)));
    total = _mm256_add_epi32(total, _mm256_madd_epi16(wide, _mm256_loadu_si256((const __m256i*)(query + i))));
  }
  return total;
}
__m128i four_sums(const uint8_t* const* rows, const int16_t* query, int64_t bytes) {
  const __m256i ab = _mm256_hadd_epi32(row_sums(rows[0], query, bytes), row_sums(rows[1], query, bytes));
  const __m256i cd = _mm256_hadd_epi32(row_sums(rows[2], query, bytes), row_sums(rows[3], query, bytes));
  const __m256i all = _mm256_hadd_epi32(ab, cd);
  return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}
#else
int32_t row_sum(const uint8_t* row, const int16_t* query, int64_t bytes) {
  int32_t total = 0;
  for (int64_t i = 0; i < bytes; ++i) total += static_cast<int32_t>(row[i]) * query[i];
  return total;
}
#endif

}  // namespace

template <Isa kIsa>
void KeyScreenRows<kIsa>::pack(const KeyScreenPack& to, const int64_t* tokens, int64_t first, int64_t count) {
  alignas(64) float key[kMaxRowsHeadDim] = {}, centre[kMaxRowsHeadDim] = {};
  std::memcpy(centre, to.centre, static_cast<size_t>(to.head_dim) * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    read_key(to, i, key);
    pack_row(to, key, centre, tokens == nullptr ? first + i : tokens[i]);
  }
}

template <Isa kIsa>
void KeyScreenRows<kIsa>::sums(const KeyScreenProduct& p) {
  const auto row = [&](int64_t i) {
    const int64_t at = std::min(i, p.count - 1);
    return p.rows + (p.tokens == nullptr ? p.first + at : p.tokens[at]) * p.stride;
  };
#if FOVEA_NEON
  for (int64_t i = 0; i < p.count; i += 4) {
    const uint8_t* rows[4] = {row(i), row(i + 1), row(i + 2), row(i + 3)};
    store_int(p.sums + i, four_sums(rows, p.query, p.bytes));
  }
#else
  alignas(64) int16_t query[kMaxRowsHeadDim];
  int32_t start = 0;
  for (int64_t i = 0; i < p.bytes; ++i) query[i] = p.query[i], start -= 128 * p.query[i];
#if FOVEA_ISA >= 1
  for (int64_t i = 0; i < p.count; i += 4) {
    const uint8_t* rows[4] = {row(i), row(i + 1), row(i + 2), row(i + 3)};
    const __m128i sums = _mm_add_epi32(four_sums(rows, query, p.bytes), _mm_set1_epi32(start));
    _mm_storeu_si128((__m128i*)(p.sums + i), sums);
  }
#else
  for (int64_t i = 0; i < p.count; ++i) p.sums[i] = row_sum(row(i), query, p.bytes) + start;
#endif
#endif
}

template struct KeyScreenRows<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
