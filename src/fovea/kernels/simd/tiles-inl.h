#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// In files of tiles only (isa.h); vectors have the sixteen lanes of a tile's row there.
// Matrices in tiles of 16 rows by 64 bytes, eight of them, numbered 0 ... 7, and the products of two tiles:
//   sum[m][n] += over k < 16 of left[m][k] . right[k][n]
// where left[m][k] and right[k][n] are words of 4 bytes: two of bfloat16, or four whole numbers of 8 bits; sums are
// float or int32. Tiles exist within a TileSession; no other library's code may run in it, as it may configure tiles
// itself.
namespace fovea::kernels {
namespace {

constexpr int kTileSide = 16;  // rows, and words of a row
constexpr int kTileRowBytes = 64;

// Of tile `kTile`, rows `row_bytes` apart in memory.
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
