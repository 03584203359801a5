#pragma once
#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/simd-inl.h"

// The integer products of AVX2. Sums is what one query sums over Sums::kKeys keys: Sums(start), add(low, high, word of
// the query), finish(tile, query, part).
namespace fovea::kernels {
namespace {

inline __m256i word(const uint32_t* p) { return _mm256_set1_epi32(static_cast<int32_t>(*p)); }
inline __m256i load_words(const uint32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }

// 6 queries keep 12 sums, 2 vectors of keys, a query's word and a product in the 16 registers; named variables, as GCC
// 12 leaves arrays of them in memory.
template <class Sums>
void micro_tile(const ScreenTile& t, int64_t query, int64_t part) {
  const uint32_t* start = t.start + query;
  Sums s0(start), s1(start + 1), s2(start + 2), s3(start + 3), s4(start + 4), s5(start + 5);
  const int64_t steps = t.steps;
  const uint32_t* x = t.queries + query * steps;
  const uint32_t* keys = t.keys + part * steps * 2 * kLanes;
  for (int64_t s = 0; s < steps; ++s, ++x, keys += 2 * kLanes) {
    const __m256i low = load_words(keys), high = load_words(keys + kLanes);
    s0.add(low, high, word(x));
    s1.add(low, high, word(x + steps));
    s2.add(low, high, word(x + 2 * steps));
    s3.add(low, high, word(x + 3 * steps));
    s4.add(low, high, word(x + 4 * steps));
    s5.add(low, high, word(x + 5 * steps));
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

}  // namespace
}  // namespace fovea::kernels
