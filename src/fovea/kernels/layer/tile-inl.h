#pragma once
#include "fovea/kernels/simd/simd-inl.h"
#if defined(FOVEA_TILES)
#include "fovea/kernels/simd/tiles-inl.h"
#endif

// The innermost product.
// A step is four bytes of depth: one float, two neighbouring bfloat16 where the machine multiplies those in pairs, or
// four numbers of 8 bits (int8-inl.h). Sum: what is summed, kLanes columns; Right: a vector of the right factor.
namespace fovea::kernels {
namespace {

constexpr int kTileRows = FOVEA_AVX512 || FOVEA_NEON ? 8 : FOVEA_ISA == 1 ? 6 : 4;
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

#if FOVEA_ISA == 8
struct Bf16Step : FloatSums {
  static constexpr int kDepth = 2;
  static F add(const char* a, F b, F sum) {
    float pair;
    std::memcpy(&pair, a, sizeof pair);
    return add_pair_products(b, pair, sum);
  }
};
#elif FOVEA_ISA == 3
struct Bf16Step : FloatSums {
  static constexpr int kDepth = 2;
  static F add(const char* a, F b, F sum) {
    int32_t pair;
    std::memcpy(&pair, a, sizeof pair);
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b);
  }
};
#endif

// The four-byte units of a row (kAlongDepth) or of a step (kAlongRows) lie side by side; those of a step in strips of
// kStripRows rows, which are whole tiles and, where they can be, whole vectors.
enum class Line : uint8_t { kAlongDepth, kAlongRows };
constexpr int64_t kStripRows = kLanes % kTileRows == 0 ? kLanes : kTileRows;

// The left factor: step s of row r is the four bytes at data + r * row_bytes + s * step_bytes; along the rows, at
// data + r / kStripRows * row_bytes + r % kStripRows * 4 + s * step_bytes. To tiles, the last rows, fewer than a
// tile's, lie at `last`, with room for a whole tile.
struct LeftFactor {
  const char* data = nullptr;
  int64_t row_bytes = 0, step_bytes = 0;
  const char* last = nullptr;
  int64_t last_row_bytes = 0;

  template <Line kLine>
  const char* row(int64_t r) const {
    if constexpr (kLine == Line::kAlongDepth) return data + r * row_bytes;
    return data + r / kStripRows * row_bytes + r % kStripRows * 4;
  }
};

// emit.row(r, low, high) for the sums of kRows rows with a panel [steps][kTileColumns].
template <class Step, Line kLine, int kRows, class Emit>
inline void tile(LeftFactor a, const float* panel, int64_t steps, int64_t row, Emit& emit) {
  typename Step::Sum low[kRows], high[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = Step::zero();
  const int64_t row_bytes = kLine == Line::kAlongRows ? 4 : a.row_bytes;
  const int64_t step_bytes = kLine == Line::kAlongDepth ? 4 : a.step_bytes;
  const char* left = a.row<kLine>(row);
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

// ---- the same by tiles, at the levels that have them ----

// The session around products of a step that needs none; products by tiles need a TileSession.
struct NoSession {
  NoSession() {}
};

#if defined(FOVEA_TILES)
template <class Step>
using SessionOf = std::conditional_t<Step::kTiles, TileSession, NoSession>;

// Pairs of bfloat16 by tiles; depths are whole tiles.
struct Bf16Tiles {
  static constexpr bool kTiles = true;
  static constexpr int kDepth = 2;
  static F sums(const float* from) { return load(from); }
  template <int kSum, int kLeft, int kRight>
  static void multiply() {
    multiply_bf16_tiles<kSum, kLeft, kRight>();
  }
};

// The sums of one or two tiles of rows, at low and high, with a panel's two of columns: added to tiles 0 ... 3.
struct LeftTiles {
  const char *low, *high;
  int64_t low_bytes, high_bytes;  // between rows
};
template <class Step, int kTall>
inline void add_tiles(LeftTiles a, const float* panel, int64_t steps) {
  constexpr int64_t kPanelBytes = kTileColumns * 4;
  for (int64_t s = 0; s < steps; s += kTileSide, panel += kTileSide * kTileColumns) {
    load_tile<4>(a.low + s * 4, a.low_bytes);
    load_tile<6>(panel, kPanelBytes);
    Step::template multiply<0, 4, 6>();
    load_tile<7>(panel + kTileSide, kPanelBytes);
    Step::template multiply<1, 4, 7>();
    if constexpr (kTall == 2) {
      load_tile<5>(a.high + s * 4, a.high_bytes);
      Step::template multiply<2, 5, 6>();
      Step::template multiply<3, 5, 7>();
    }
  }
}

template <class Step, int kTall>
inline void sum_tiles(LeftTiles a, const float* panel, int64_t steps) {
  zero_tile<0>(), zero_tile<1>();
  if constexpr (kTall == 2) zero_tile<2>(), zero_tile<3>();
  add_tiles<Step, kTall>(a, panel, steps);
}

// Emit of a matrix of floats, rows as far apart as Emit::stride: tiles go there and come from there as they are.
template <class Emit>
concept TakesTiles = requires(Emit emit) {
  emit.sums;
};

template <class Step, int kTall, class Emit>
inline void emit_tiles(LeftTiles a, const float* panel, int64_t steps, int64_t row, int64_t rows, Emit& emit) {
  alignas(64) float block[kTall * kTileSide * kTileColumns];
  if constexpr (TakesTiles<Emit>) {
    float* sums = emit.sums + row * emit.stride;
    const bool whole = rows == kTall * kTileSide;
    float* to = whole ? sums : block;
    const int64_t stride = whole ? emit.stride : kTileColumns;
    const auto copy = [&](float* from, int64_t from_stride, float* into, int64_t into_stride) {
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(into + r * into_stride, from + r * from_stride, kTileColumns * sizeof *into);
      }
    };
    if (!whole && Emit::kAdds) copy(sums, emit.stride, block, kTileColumns);
    if constexpr (Emit::kAdds) {
      load_sums<kTall, 2>(to, stride);
      add_tiles<Step, kTall>(a, panel, steps);
    } else {
      sum_tiles<Step, kTall>(a, panel, steps);
    }
    store_sums<kTall, 2>(to, stride);
    if (!whole) copy(block, kTileColumns, sums, emit.stride);
  } else {
    sum_tiles<Step, kTall>(a, panel, steps);
    store_sums<kTall, 2>(block, kTileColumns);
    for (int64_t r = 0; r < rows; ++r) {
      const float* line = block + r * kTileColumns;
      emit.row(row + r, Step::sums(line), Step::sums(line + kTileSide));
    }
  }
}

// All rows with one panel, in a TileSession. steps: whole tiles.
template <class Step, Line kLine, class Emit>
requires(Step::kTiles) inline void panel_product(LeftFactor a, int64_t rows, const float* panel, int64_t steps,
                                                 Emit& emit) {
  static_assert(kLine == Line::kAlongDepth);
  const int64_t whole = rows / kTileSide * kTileSide;
  const auto from = [&](int64_t row) { return row < whole ? a.data + row * a.row_bytes : a.last; };
  const auto bytes = [&](int64_t row) { return row < whole ? a.row_bytes : a.last_row_bytes; };
  for (int64_t row = 0; row < rows; row += 2 * kTileSide) {
    const int64_t next = row + kTileSide, left = rows - row;
    if (next < rows) {
      const LeftTiles tiles = {from(row), from(next), bytes(row), bytes(next)};
      emit_tiles<Step, 2>(tiles, panel, steps, row, left < 2 * kTileSide ? left : 2 * kTileSide, emit);
    } else {
      emit_tiles<Step, 1>({from(row), nullptr, bytes(row), 0}, panel, steps, row, left, emit);
    }
  }
}
#else
template <class Step>
using SessionOf = NoSession;
#endif

}  // namespace
}  // namespace fovea::kernels
