#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {

#if FOVEA_ISA == 1

// Twice the rate of float32: vpmaddwd multiplies 16 pairs and adds neighbours exactly. A micro-tile of 6 queries by 16
// keys keeps 12 sums, 2 vectors of keys, a query's word and a product in the 16 registers; named variables, as GCC 12
// leaves arrays of them in memory.
namespace {

inline I word(const uint32_t* p) { return set_int(static_cast<int32_t>(*p)); }
inline I load_words(const uint32_t* p) { return (I)_mm256_loadu_si256((const __m256i*)p); }

// One query's sums over a group of keys.
struct Sums {
  I low = {}, high = {};

  void add(I keys_low, I keys_high, I x) {
    low += (I)_mm256_madd_epi16((__m256i)keys_low, (__m256i)x);
    high += (I)_mm256_madd_epi16((__m256i)keys_high, (__m256i)x);
  }
  void finish(const ScreenTile& t, int64_t query, int64_t group) const {
    auto* scores = reinterpret_cast<int32_t*>(t.scores) + query * kScoreStride + group * kGroupKeys;
    store_int(scores, low);
    store_int(scores + kLanes, high);
    const I least = word(t.thresholds + query);
    const uint32_t reached = bits({(F)(low >= least)}) | bits({(F)(high >= least)}) << kLanes;
    t.hits[query * kBlockGroups + group] = static_cast<uint16_t>(reached);
  }
};

void micro_tile(const ScreenTile& t, int64_t query, int64_t group) {
  Sums s0, s1, s2, s3, s4, s5;
  const int64_t steps = t.steps;
  const uint32_t* x = t.queries + query * steps;
  const uint32_t* keys = t.keys + group * steps * kGroupKeys;
  for (int64_t s = 0; s < steps; ++s, ++x, keys += kGroupKeys) {
    const I low = load_words(keys), high = load_words(keys + kLanes);
    s0.add(low, high, word(x));
    s1.add(low, high, word(x + steps));
    s2.add(low, high, word(x + 2 * steps));
    s3.add(low, high, word(x + 3 * steps));
    s4.add(low, high, word(x + 4 * steps));
    s5.add(low, high, word(x + 5 * steps));
  }
  s0.finish(t, query, group);
  s1.finish(t, query + 1, group);
  s2.finish(t, query + 2, group);
  s3.finish(t, query + 3, group);
  s4.finish(t, query + 4, group);
  s5.finish(t, query + 5, group);
}

}  // namespace

void screen_product_int16(const ScreenTile& tile) {
  for (int64_t group = 0; group < tile.num_tiles * (kTileKeys / kGroupKeys); ++group) {
    for (int64_t query = 0; query < tile.num_queries; query += 6) micro_tile(tile, query, group);
  }
}

#elif FOVEA_ISA == 0 && !defined(__x86_64__)
void screen_product_int16(const ScreenTile&) {}  // never chosen: isa() says so
#endif

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
