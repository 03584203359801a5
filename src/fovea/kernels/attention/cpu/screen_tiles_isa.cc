#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

#if defined(FOVEA_TILES)
#include "fovea/kernels/simd/tiles-inl.h"

namespace fovea::kernels {
namespace {

constexpr int kTall = kBlockQueries / kTileSide;  // tiles of queries
constexpr int kGroups = kTileKeys / kGroupKeys;
static_assert(kTall == 3 && kBlockQueries % kTileSide == 0 && kGroupKeys == kTileSide);

// Writes a bit for each of kTileKeys scores that is at least `least` to `hits` [kGroups].
inline void mark_row(const int32_t* scores, I least, uint16_t* hits) {
#if FOVEA_AVX512
  const auto reached = [&](int group) {
    return _mm512_cmpge_epi32_mask((__m512i)load_int(scores + group * kGroupKeys), (__m512i)least);
  };
  const __mmask32 low = _mm512_kunpackw(reached(1), reached(0)), high = _mm512_kunpackw(reached(3), reached(2));
  _store_mask64(reinterpret_cast<__mmask64*>(hits), _mm512_kunpackd(high, low));
#else
  for (int group = 0; group < kGroups; ++group) {
    hits[group] = static_cast<uint16_t>(bits({load_int(scores + group * kGroupKeys) >= least}));
  }
#endif
}

// Computes sums of up to kTall tiles of queries with groups of keys. `start` [kBlockQueries][kTileSide] holds the value
// with which each sum begins.
class Product {
 public:
  Product(const ScreenTile& tile, const uint32_t* start)
      : t_(tile), start_(start), tall_(static_cast<int>((tile.num_queries + kTileSide - 1) / kTileSide)) {}

  void run() const {
    for (int64_t tile = 0; tile < t_.num_tiles; ++tile) {
      for (int64_t group = tile * kGroups; group < (tile + 1) * kGroups; ++group) {
        if (tall_ == 3) sum<3>(group);
        if (tall_ == 2) sum<2>(group);
        if (tall_ == 1) sum<1>(group);
      }
      mark(tile * kGroups);
    }
  }

 private:
  template <int kTiles>
  void sum(int64_t group) const {
    begin<0, kTiles>();
    const int64_t steps = t_.steps, row_bytes = steps * 4;
    const uint32_t* keys = t_.keys + group * steps * kGroupKeys;
    const uint32_t* queries = t_.queries;
    for (int64_t s = 0; s < steps; s += kTileSide) {
      load_tile<6>(keys + s * kGroupKeys, kTileRowBytes);
      load_tile<3>(queries + s, row_bytes);
      multiply_int8_tiles<0, 3, 6>();
      if constexpr (kTiles > 1) {
        load_tile<4>(queries + kTileSide * steps + s, row_bytes);
        multiply_int8_tiles<1, 4, 6>();
      }
      if constexpr (kTiles > 2) {
        load_tile<5>(queries + 2 * kTileSide * steps + s, row_bytes);
        multiply_int8_tiles<2, 5, 6>();
      }
    }
    uint32_t* scores = t_.scores + group * kGroupKeys;
    store_tile<0>(scores, kScoreBytes);
    if constexpr (kTiles > 1) store_tile<1>(scores + kTileSide * kScoreStride, kScoreBytes);
    if constexpr (kTiles > 2) store_tile<2>(scores + 2 * kTileSide * kScoreStride, kScoreBytes);
  }
  template <int kTile, int kTiles>
  void begin() const {
    if constexpr (kTile < kTiles) {
      load_tile<kTile>(start_ + kTile * kTileSide * kTileSide, kTileRowBytes);
      begin<kTile + 1, kTiles>();
    }
  }
  // Marks the hits of the groups of a tile.
  void mark(int64_t group) const {
    for (int64_t query = 0; query < t_.num_queries; ++query) {
      const auto* scores = reinterpret_cast<const int32_t*>(t_.scores) + query * kScoreStride + group * kGroupKeys;
      const I least = set_int(static_cast<int32_t>(t_.thresholds[query]));
      mark_row(scores, least, t_.hits + query * kBlockGroups + group);
    }
  }

  static constexpr int64_t kScoreBytes = kScoreStride * 4;
  const ScreenTile& t_;
  const uint32_t* start_;
  int tall_;
};

}  // namespace

template <Isa kIsa>
void ScreenTiles<kIsa>::product_int8(const ScreenTile& tile) {
  alignas(64) uint32_t start[kBlockQueries * kTileSide];
  for (int64_t query = 0; query < kBlockQueries; ++query) {
    const int32_t of_row = query < tile.num_queries ? static_cast<int32_t>(tile.start[query]) : 0;
    store_int(reinterpret_cast<int32_t*>(start) + query * kTileSide, set_int(of_row));
  }
  const TileSession session;
  Product(tile, start).run();
}

template struct ScreenTiles<kThisIsa>;

}  // namespace fovea::kernels
#endif
#include "fovea/kernels/simd/isa_end-inl.h"
