#include "fovea/kernels/attention/cpu/bf16_products.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {

template <Isa kIsa>
int Bf16Scan<kIsa>::least_exponent(const Bf16Rows& rows) {
  int least = 255;
#if FOVEA_AVX512
  const __m512i exponent = _mm512_set1_epi16(0x7f80), number = _mm512_set1_epi16(0x7fff);
  __m512i lowest = exponent;
  for (int64_t t = 0; t < rows.tokens; ++t) {
    const uint16_t* row = rows.row(t);
    for (int64_t i = 0; i < rows.width; i += 32) {
      const int64_t left = rows.width - i;
      const __mmask32 part = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
      const __m512i x = _mm512_maskz_loadu_epi16(part, row + i);
      lowest = _mm512_mask_min_epu16(lowest, _mm512_test_epi16_mask(x, number), lowest, _mm512_and_si512(x, exponent));
    }
  }
  uint16_t lanes[32];
  _mm512_storeu_si512(lanes, lowest);
  for (const uint16_t lane : lanes) least = std::min(least, lane >> 7);
#else
  for (int64_t t = 0; t < rows.tokens; ++t) {
    const uint16_t* row = rows.row(t);
    for (int64_t i = 0; i < rows.width; ++i) {
      if ((row[i] & 0x7fff) != 0) least = std::min(least, (row[i] & 0x7f80) >> 7);
    }
  }
#endif
  return least;
}

template <Isa kIsa>
int Bf16Scan<kIsa>::greatest_exponent(const Bf16Rows& rows) {
  uint16_t most = 0;
  for (int64_t t = 0; t < rows.tokens; ++t) {
    const uint16_t* row = rows.row(t);
    for (int64_t i = 0; i < rows.width; ++i) most = std::max(most, static_cast<uint16_t>(row[i] & 0x7f80));
  }
  return most >> 7;
}

template struct Bf16Scan<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
