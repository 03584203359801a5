#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// In files of tiles only (isa.h); vectors have the sixteen lanes of a tile's row there.
// Matrices in tiles of 16 rows by 64 bytes, eight of them, numbered 0 ... 7, and the products of two tiles:
//   sum[m][n] += over k < 16 of left[m][k] . right[k][n]
// where left[m][k] and right[k][n] are words of 4 bytes: two of bfloat16, or four of int8; sums are float or int32.
// Tiles exist within a TileSession. No other library's code may run in the session, because that code may configure
// tiles itself.
namespace fovea::kernels {
namespace {

constexpr int kTileSide = 16;  // rows, and words of a row
constexpr int kTileRowBytes = 64;

// Move tile `kTile` from and to memory; its rows are `row_bytes` apart there.
template <int kTile>
void load_tile(const void* rows, int64_t row_bytes);
template <int kTile>
void store_tile(void* rows, int64_t row_bytes);
template <int kTile>
void zero_tile();

// bfloat16. Two sums, of the first and of the second numbers of the words, each begun at zero and one fused
// multiply-add a word, by rising k; then sum += first + second. Numbers below the normal range count as zero, and such
// results of each operation become zero. Roundings are to the nearest, ties to even.
template <int kSum, int kLeft, int kRight>
void multiply_bf16_tiles();
// Bytes: signed ones on the left, unsigned ones on the right; sums wrap.
template <int kSum, int kLeft, int kRight>
void multiply_int8_tiles();

static_assert(kLanes == kTileSide);

}  // namespace
}  // namespace fovea::kernels

#if FOVEA_TILES == 1
#include "fovea/kernels/simd/tiles_amx-inl.h"
#else
#include "fovea/kernels/simd/tiles_emulated-inl.h"
#endif

namespace fovea::kernels {
namespace {

// Tiles 0 ... 3 as a matrix of sums, kTall by kWide tiles of it, rows `stride` floats apart: tiles 0 and 1 lie side by
// side, 2 and 3 below them.
template <int kTall, int kWide>
inline void store_sums(float* sums, int64_t stride) {
  store_tile<0>(sums, stride * 4);
  if constexpr (kWide == 2) store_tile<1>(sums + kTileSide, stride * 4);
  if constexpr (kTall == 2) store_tile<2>(sums + kTileSide * stride, stride * 4);
  if constexpr (kTall == 2 && kWide == 2) store_tile<3>(sums + kTileSide * (stride + 1), stride * 4);
}
template <int kTall, int kWide>
inline void load_sums(const float* sums, int64_t stride) {
  load_tile<0>(sums, stride * 4);
  if constexpr (kWide == 2) load_tile<1>(sums + kTileSide, stride * 4);
  if constexpr (kTall == 2) load_tile<2>(sums + kTileSide * stride, stride * 4);
  if constexpr (kTall == 2 && kWide == 2) load_tile<3>(sums + kTileSide * (stride + 1), stride * 4);
}

}  // namespace
}  // namespace fovea::kernels
