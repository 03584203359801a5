#pragma once
#if defined(FOVEA_TILES)
#include "fovea/kernels/simd/tiles-inl.h"
#endif

// Products of panels by tiles, at the levels that have them: what tile-inl.h does by vectors.
namespace fovea::kernels {
namespace {

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
