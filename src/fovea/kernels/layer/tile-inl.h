#pragma once
// The innermost product, between isa_begin-inl.h and isa_end-inl.h only, after simd-inl.h.
// A step is four bytes of depth: one float, two neighbouring bfloat16 where the machine multiplies those in pairs, or
// four numbers of 8 bits (int8-inl.h). Sum: what is summed, kLanes columns; Right: a vector of the right factor.
namespace fovea::kernels {
namespace {

constexpr int kTileRows = FOVEA_ISA >= 2 ? 8 : FOVEA_ISA == 1 ? 6 : 4;
constexpr int kTileColumns = 2 * kLanes;  // accumulators fill kTileRows x 2 registers

struct FloatSums {
  static constexpr bool kTiles = false;
  using Sum = F;
  using Right = F;
  static F zero() { return set(0); }
  static F right(const float* panel) { return load(panel); }
};

struct FloatStep : FloatSums {
  static constexpr int kDepth = 1;
  static F add(const char* a, F b, F sum) {
    float x;
    std::memcpy(&x, a, sizeof x);
    return fma(set(x), b, sum);
  }
};

#if FOVEA_ISA == 3
struct Bf16Step : FloatSums {
  static constexpr int kDepth = 2;
  static F add(const char* a, F b, F sum) {
    int32_t pair;
    std::memcpy(&pair, a, sizeof pair);
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b);
  }
};
#endif

// The left factor: step s of row r is the four bytes at data + r * row_bytes + s * step_bytes. To tiles, the last rows,
// fewer than a tile's, lie at `last`, with room for a whole tile.
struct LeftFactor {
  const char* data = nullptr;
  int64_t row_bytes = 0, step_bytes = 0;
  const char* last = nullptr;
  int64_t last_row_bytes = 0;
};

// kLine: the four-byte units of a row (kAlongDepth) or of a step (kAlongRows) lie side by side.
enum class Line : uint8_t { kAlongDepth, kAlongRows };

// emit.row(r, low, high) for the sums of kRows rows with a panel [steps][kTileColumns].
template <class Step, Line kLine, int kRows, class Emit>
inline void tile(LeftFactor a, const float* panel, int64_t steps, int64_t row, Emit& emit) {
  typename Step::Sum low[kRows], high[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = Step::zero();
  const int64_t row_bytes = kLine == Line::kAlongRows ? 4 : a.row_bytes;
  const int64_t step_bytes = kLine == Line::kAlongDepth ? 4 : a.step_bytes;
  const char* left = a.data + row * row_bytes;
  for (int64_t s = 0; s < steps; ++s, left += step_bytes, panel += kTileColumns) {
    const typename Step::Right b_low = Step::right(panel), b_high = Step::right(panel + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      low[r] = Step::add(left + r * row_bytes, b_low, low[r]);
      high[r] = Step::add(left + r * row_bytes, b_high, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) emit.row(row + r, low[r], high[r]);
}

template <class Step, Line kLine, int kRows, class Emit>
inline void last_rows(LeftFactor a, const float* panel, int64_t steps, int64_t row, int64_t rows, Emit& emit) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return tile<Step, kLine, kRows>(a, panel, steps, row, emit);
    last_rows<Step, kLine, kRows - 1>(a, panel, steps, row, rows, emit);
  }
}

// All rows with one panel.
template <class Step, Line kLine, class Emit>
requires(!Step::kTiles) inline void panel_product(LeftFactor a, int64_t rows, const float* panel, int64_t steps,
                                                  Emit& emit) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) tile<Step, kLine, kTileRows>(a, panel, steps, row, emit);
  last_rows<Step, kLine, kTileRows - 1>(a, panel, steps, row, rows - row, emit);
}

}  // namespace
}  // namespace fovea::kernels

#include "fovea/kernels/layer/tiled_panel-inl.h"
