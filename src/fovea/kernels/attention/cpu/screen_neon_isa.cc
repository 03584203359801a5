#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

#if FOVEA_NEON

// The products of ARM.
namespace fovea::kernels {
namespace {

struct FloatProduct {
  using Number = float;
  using Vector = F;
  static F load(const float* p) { return kernels::load(p); }
  static void store(float* p, F v) { kernels::store(p, v); }
  static F all(float x) { return set(x); }
  static F add(F keys, float word, F sum) { return add_scaled(keys, word, sum); }
  static uint32_t reaching(F sum, F least) { return bits(less_equal(least, sum)); }
};

#if FOVEA_ISA >= 7
struct ByteProduct {
  using Number = int32_t;
  using Vector = I;
  static I load(const int32_t* p) { return load_int(p); }
  static void store(int32_t* p, I v) { store_int(p, v); }
  static I all(int32_t x) { return set_int(x); }
  static I add(I keys, float word, I sum) { return add_word_products(keys, word, sum); }
  static uint32_t reaching(I sum, I least) { return bits({(uint32x4_t)(sum >= least)}); }
};
#endif

// Scores kProductQueries queries with the keys of a group: 24 sums, 4 vectors of keys and a query's word in the 32
// registers. GCC 12 leaves the sums in memory unless it is told to unroll all loops over them.
template <class Product>
void micro_tile(const ScreenTile& tile, int64_t query, int64_t group) {
  using Number = typename Product::Number;
  using Vector = typename Product::Vector;
  constexpr int kVectors = kGroupKeys / kLanes;
  const ScreenTile t = tile;  // a copy: what is written might be the tile, for all GCC knows
  Vector sums[kProductQueries][kVectors];
#pragma GCC unroll 6
  for (int q = 0; q < kProductQueries; ++q) {
    const Vector start = Product::all(reinterpret_cast<const Number*>(t.start)[query + q]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[q][v] = start;
  }
  const auto* x = reinterpret_cast<const float*>(t.queries) + query * t.steps;
  const auto* keys = reinterpret_cast<const Number*>(t.keys) + group * t.steps * kGroupKeys;
  for (int64_t s = 0; s < t.steps; ++s, ++x, keys += kGroupKeys) {
    Vector some[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) some[v] = Product::load(keys + v * kLanes);
#pragma GCC unroll 6
    for (int q = 0; q < kProductQueries; ++q) {
      const float word = x[q * t.steps];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[q][v] = Product::add(some[v], word, sums[q][v]);
    }
  }
#pragma GCC unroll 6
  for (int q = 0; q < kProductQueries; ++q) {
    auto* scores = reinterpret_cast<Number*>(t.scores) + (query + q) * kScoreStride + group * kGroupKeys;
    const Vector least = Product::all(reinterpret_cast<const Number*>(t.thresholds)[query + q]);
    uint32_t reached = 0;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Product::store(scores + v * kLanes, sums[q][v]);
      reached |= Product::reaching(sums[q][v], least) << (v * kLanes);
    }
    t.hits[(query + q) * kBlockGroups + group] = static_cast<uint16_t>(reached);
  }
}

template <class Product>
void multiply(const ScreenTile& tile) {
  for (int64_t group = 0; group < tile.num_tiles * (kTileKeys / kGroupKeys); ++group) {
    for (int64_t query = 0; query < tile.num_queries; query += kProductQueries) micro_tile<Product>(tile, query, group);
  }
}

}  // namespace

template <Isa kIsa>
void ScreenPack<kIsa>::product_float(const ScreenTile& tile) {
  multiply<FloatProduct>(tile);
}
template void ScreenPack<kThisIsa>::product_float(const ScreenTile&);

#if FOVEA_ISA >= 7
template <Isa kIsa>
void ScreenDot<kIsa>::product_int8(const ScreenTile& tile) {
  multiply<ByteProduct>(tile);
}
template struct ScreenDot<kThisIsa>;
#endif

}  // namespace fovea::kernels

#endif
#include "fovea/kernels/simd/isa_end-inl.h"
