#pragma once
#include "fovea/kernels/attention/cpu/rows-inl.h"

// Products of one array's rows with another's: by floats, or by pairs of bfloat16 as they lie, which the processor
// multiplies at twice the rate. Products of bfloat16 are exact in float32 and summed there either way.
namespace fovea::kernels {
namespace {

// Some rows of one head.
struct RowRange {
  HeadRows rows;
  int64_t first = 0, count = 0;
};

#if FOVEA_ISA == 3
// Whether no number is below the normal range: the product of pairs takes such for zero.
inline bool all_normal(const RowRange& range, int64_t width) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80), fraction = _mm512_set1_epi16(0x7f);
  __mmask32 below = 0;
  const auto* row = static_cast<const uint16_t*>(range.rows.data) + range.first * range.rows.stride;
  for (int64_t t = 0; t < range.count; ++t, row += range.rows.stride) {
    for (int64_t i = 0; i < width; i += 32) {
      const __mmask32 part = width - i >= 32 ? ~__mmask32{0} : (__mmask32{1} << (width - i)) - 1;
      const __m512i x = _mm512_maskz_loadu_epi16(part, row + i);
      below |= _mm512_mask_test_epi16_mask(_mm512_testn_epi16_mask(x, exponent), x, fraction);
    }
  }
  return below == 0;
}
inline bool may_pair(const RowRange& left, const RowRange& right, int64_t width) {
  const auto takes = [&](const RowRange& range) {
    return range.rows.lane == Lane::kBFloat16 && width % 2 == 0 && all_normal(range, width);
  };
  return takes(left) && takes(right);
}
#else
inline bool may_pair(const RowRange&, const RowRange&, int64_t) { return false; }
#endif

class RowDots {
 public:
  RowDots() = default;
  // Reads the ranges, the only rows of `left` and `right` to be packed later.
  RowDots(const RowRange& left, const RowRange& right, int64_t width)
      : left_(left.rows), right_(right.rows), words_(width), pairs_(may_pair(left, right, width)) {
    if (!pairs_) return;
    left_.lane = right_.lane = Lane::kPair;
    words_ = width / 2;
  }

  bool pairs() const { return pairs_; }
  int64_t stride() const { return round_up(words_, kLanes); }
  // [tokens][stride()].
  void pack_left(const TokenList& at, int64_t tokens, float* out) const { pack_rows(left_, at, tokens, words_, out); }
  void pack_right(const TokenList& at, int64_t tokens, float* panels) const {
    pack_panels(right_, at, tokens, words_, panels);
  }
  // The products of packed rows, times `factor`.
  struct Block {
    const float* left = nullptr;
    const float* panels = nullptr;
    float* out = nullptr;
    int64_t out_row = 0;
    float factor = 1;
  };
  void multiply(const Block& block, int64_t rows, ColumnPart part) const {
    const ScoreProduct product = {block.left, stride(), block.panels, words_, block.out, block.out_row, &block.factor};
    if constexpr (kThisIsa == Isa::kAvx512Bf16) {
      if (pairs_) return multiply_panels<Words::kPairs>(product, rows, part);
    }
    multiply_panels(product, rows, part);
  }

 private:
  HeadRows left_, right_;
  int64_t words_ = 0;  // of a row
  bool pairs_ = false;
};

}  // namespace
}  // namespace fovea::kernels
