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

#if FOVEA_TILES == 1
// By Intel's AMX. Instructions as they are: the compiler's intrinsics take numbers of tiles as macros only.

// Configures this thread's tiles, and gives them back: what is left of them would be saved at every switch of threads.
class TileSession {
 public:
  TileSession() {
    static constexpr Configuration kAllWhole;
    asm volatile("ldtilecfg %0" : : "m"(kAllWhole));
  }
  ~TileSession() { asm volatile("tilerelease" : : : "memory"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

 private:
  struct alignas(64) Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
};

template <int kTile>
[[gnu::always_inline]] inline void load_tile(const void* rows, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void store_tile(void* rows, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kSum, int kLeft, int kRight>
[[gnu::always_inline]] inline void multiply_bf16_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}
template <int kSum, int kLeft, int kRight>
[[gnu::always_inline]] inline void multiply_int8_tiles() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}
#else
// In plain C++, for tests of all that uses tiles on any machine. Outside a session it traps, as AMX does.

struct EmulatedTiles {
  bool configured = false;
  uint32_t words[8][kTileSide][kTileSide] = {};
};
inline thread_local EmulatedTiles emulated_tiles;

class TileSession {
 public:
  TileSession() {
    std::memset(emulated_tiles.words, 0, sizeof emulated_tiles.words);
    emulated_tiles.configured = true;
  }
  ~TileSession() { emulated_tiles.configured = false; }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

using TileWords = uint32_t[kTileSide][kTileSide];
inline TileWords& emulated_tile(int tile) {
  if (!emulated_tiles.configured) __builtin_trap();
  return emulated_tiles.words[tile];
}

template <int kTile>
inline void load_tile(const void* rows, int64_t row_bytes) {
  TileWords& tile = emulated_tile(kTile);
  for (int r = 0; r < kTileSide; ++r) {
    std::memcpy(tile[r], static_cast<const char*>(rows) + r * row_bytes, kTileRowBytes);
  }
}
template <int kTile>
inline void store_tile(void* rows, int64_t row_bytes) {
  const TileWords& tile = emulated_tile(kTile);
  for (int r = 0; r < kTileSide; ++r) std::memcpy(static_cast<char*>(rows) + r * row_bytes, tile[r], kTileRowBytes);
}
template <int kTile>
inline void zero_tile() {
  std::memset(emulated_tile(kTile), 0, sizeof(TileWords));
}

// Zeros, of their signs, in place of numbers below the normal range.
inline F flushed(F x) {
  const I small = (as_int(x) & 0x7f800000) == 0;
  return as_float(as_int(x) & ~(small & 0x7fffffff));
}
inline bool all(I truths) {
  for (int i = 0; i < kLanes; ++i) {
    if (truths[i] == 0) return false;
  }
  return true;
}
// x y + sum, fused, for x and y of bfloat16: their product is a float as it is unless it leaves the normal range.
inline F fused(F x, F y, F sum) {
  F result = x * y + sum;
  const I exponent = as_int(x * y) & 0x7f800000;
  const I plain = ((exponent != 0) & (exponent != 0x7f800000)) | (x == 0) | (y == 0);
  if (!all(plain)) {
    for (int i = 0; i < kLanes; ++i) result[i] = __builtin_fmaf(x[i], y[i], sum[i]);
  }
  return flushed(result);
}

template <int kSum, int kLeft, int kRight>
inline void multiply_bf16_tiles() {
  const auto low = [](I words) { return flushed(as_float(words << 16)); };
  const auto high = [](I words) { return flushed(as_float(words & static_cast<int32_t>(0xffff0000U))); };
  const auto row = [](TileWords& tile, int r) { return reinterpret_cast<int32_t*>(tile[r]); };
  TileWords &sums = emulated_tile(kSum), &left = emulated_tile(kLeft), &right = emulated_tile(kRight);
  for (int m = 0; m < kTileSide; ++m) {
    F first = set(0), second = set(0);
    for (int k = 0; k < kTileSide; ++k) {
      const I a = set_int(row(left, m)[k]), b = load_int(row(right, k));
      first = fused(low(a), low(b), first);
      second = fused(high(a), high(b), second);
    }
    const F sum = flushed(as_float(load_int(row(sums, m)))) + flushed(first + second);
    store_int(row(sums, m), as_int(flushed(sum)));
  }
}

template <int kSum, int kLeft, int kRight>
inline void multiply_int8_tiles() {
  TileWords& sums = emulated_tile(kSum);
  const TileWords &left = emulated_tile(kLeft), &right = emulated_tile(kRight);
  for (int m = 0; m < kTileSide; ++m) {
    for (int k = 0; k < kTileSide; ++k) {
      for (int n = 0; n < kTileSide; ++n) {
        for (int byte = 0; byte < 4; ++byte) {
          const auto a = static_cast<int8_t>(left[m][k] >> (8 * byte));
          const auto b = static_cast<uint8_t>(right[k][n] >> (8 * byte));
          sums[m][n] += static_cast<uint32_t>(int32_t{a} * int32_t{b});
        }
      }
    }
  }
}
#endif

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
