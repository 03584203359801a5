#pragma once

// tiles-inl.h in plain C++, for tests of all that uses tiles on any machine. Outside a session it traps, as AMX does.
namespace fovea::kernels {
namespace {

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

}  // namespace
}  // namespace fovea::kernels
