#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {

#if FOVEA_ISA == 1

// The integer products of AVX2. Sums is what one query sums over Sums::kKeys keys: Sums(start), add(low, high, word of
// the query), finish(tile, query, part).
namespace {

inline __m256i word(const uint32_t* p) { return _mm256_set1_epi32(static_cast<int32_t>(*p)); }
inline __m256i load_words(const uint32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }

// 6 queries keep 12 sums, 2 vectors of keys, a query's word and a product in the 16 registers: named variables, and the
// instructions as they are in add(), as GCC 12 moves intrinsics apart until sums are left in memory.
template <class Sums>
void micro_tile(const ScreenTile& tile, int64_t query, int64_t part) {
  const ScreenTile t = tile;  // a copy: what is written might be the tile, for all GCC knows
  const uint32_t* start = t.start + query;
  Sums s0(start), s1(start + 1), s2(start + 2), s3(start + 3), s4(start + 4), s5(start + 5);
  const int64_t steps = t.steps;
  const uint32_t* x = t.queries + query * steps;
  const uint32_t* keys = t.keys + part * steps * 2 * kLanes;
  constexpr int64_t kUnrolled = 4;  // steps is a multiple of 8, as the width is one of 16
  for (int64_t s = 0; s < steps; s += kUnrolled) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kUnrolled; ++i, ++x, keys += 2 * kLanes) {
      const __m256i low = load_words(keys), high = load_words(keys + kLanes);
      s0.add(low, high, x);
      s1.add(low, high, x + steps);
      s2.add(low, high, x + 2 * steps);
      s3.add(low, high, x + 3 * steps);
      s4.add(low, high, x + 4 * steps);
      s5.add(low, high, x + 5 * steps);
    }
  }
  s0.finish(t, query, part);
  s1.finish(t, query + 1, part);
  s2.finish(t, query + 2, part);
  s3.finish(t, query + 3, part);
  s4.finish(t, query + 4, part);
  s5.finish(t, query + 5, part);
}

template <class Sums>
void screen_product_of(const ScreenTile& tile) {
  for (int64_t part = 0; part < tile.num_tiles * (kTileKeys / Sums::kKeys); ++part) {
    for (int64_t query = 0; query < tile.num_queries; query += kProductQueries) micro_tile<Sums>(tile, query, part);
  }
}

// Twice the rate of float32: vpmaddwd multiplies 16 pairs and adds neighbours exactly.
struct Int16Sums {
  static constexpr int kKeys = kGroupKeys;
  __m256i low = {}, high = {};

  explicit Int16Sums(const uint32_t*) {}  // sums of this format begin with 0
  void add(__m256i keys_low, __m256i keys_high, const uint32_t* x) {
    __m256i product, other;
    asm volatile(
        "vpbroadcastd %[x], %[other]\n\t"
        "vpmaddwd %[other], %[keys_low], %[product]\n\t"
        "vpmaddwd %[other], %[keys_high], %[other]\n\t"
        "vpaddd %[product], %[low], %[low]\n\t"
        "vpaddd %[other], %[high], %[high]"
        : [low] "+x"(low), [high] "+x"(high), [product] "=&x"(product), [other] "=&x"(other)
        : [keys_low] "x"(keys_low), [keys_high] "x"(keys_high), [x] "m"(*x));
  }
  void finish(const ScreenTile& t, int64_t query, int64_t group) const {
    auto* scores = reinterpret_cast<int32_t*>(t.scores) + query * kScoreStride + group * kGroupKeys;
    store_int(scores, (I)low);
    store_int(scores + kLanes, (I)high);
    const I least = (I)word(t.thresholds + query);
    const uint32_t reached = bits({(F)((I)low >= least)}) | bits({(F)((I)high >= least)}) << kLanes;
    t.hits[query * kBlockGroups + group] = static_cast<uint16_t>(reached);
  }
};

// Four times the rate of float32: vpmaddubsw multiplies 32 bytes of keys by those of a query and adds neighbours. It
// saturates at 16 bits, which no pair reaches: 2 * 255 * 64 = 32640. The sums wrap around on their way and come out
// right, because their final values fit in 16 bits (screen_pack_isa.cc). One query's sums over kPairKeys keys.
struct PairSums {
  static constexpr int kKeys = kPairKeys;
  __m256i low, high;

  explicit PairSums(const uint32_t* start) : low(word(start)), high(low) {}
  void add(__m256i keys_low, __m256i keys_high, const uint32_t* x) {
    __m256i product, other;
    asm volatile(
        "vpbroadcastd %[x], %[other]\n\t"
        "vpmaddubsw %[other], %[keys_low], %[product]\n\t"
        "vpmaddubsw %[other], %[keys_high], %[other]\n\t"
        "vpaddw %[product], %[low], %[low]\n\t"
        "vpaddw %[other], %[high], %[high]"
        : [low] "+x"(low), [high] "+x"(high), [product] "=&x"(product), [other] "=&x"(other)
        : [keys_low] "x"(keys_low), [keys_high] "x"(keys_high), [x] "m"(*x));
  }
  void finish(const ScreenTile& t, int64_t query, int64_t part) const {
    auto* scores = reinterpret_cast<__m256i*>(reinterpret_cast<int16_t*>(t.scores + query * kScoreStride)) + 2 * part;
    _mm256_storeu_si256(scores, low);
    _mm256_storeu_si256(scores + 1, high);
    const __m256i least = word(t.thresholds + query);
    // The pack instruction works on halves of 128 bits, which is what place_of_pair_key() is for.
    const __m256i below = _mm256_packs_epi16(_mm256_cmpgt_epi16(least, low), _mm256_cmpgt_epi16(least, high));
    const auto reached = ~static_cast<uint32_t>(_mm256_movemask_epi8(below));
    std::memcpy(t.hits + query * kBlockGroups + part * (kPairKeys / kGroupKeys), &reached, sizeof reached);
  }
};

}  // namespace

void screen_product_int16(const ScreenTile& tile) { screen_product_of<Int16Sums>(tile); }
void screen_product_pairs(const ScreenTile& tile) { screen_product_of<PairSums>(tile); }

#elif FOVEA_ISA == 0 && !defined(__x86_64__)
void screen_product_int16(const ScreenTile&) {}  // never chosen: isa() says so
void screen_product_pairs(const ScreenTile&) {}
#endif

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
