#include "fovea/kernels/attention/cpu/screen.h"

// Products in small formats, with the instruction sets switched on for these functions alone. A micro-tile of 6 queries
// by 64 keys keeps 24 sums, 4 vectors of keys and a query's word in the 32 registers.
#if defined(__x86_64__)
#include <immintrin.h>

namespace fovea::kernels {
namespace {

constexpr int kQueries = 6, kVectors = 4;
constexpr int64_t kGroups = kBlockKeys / kGroupKeys;

#define FOVEA_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define FOVEA_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

FOVEA_BF16 inline void bf16_micro_tile(const ScreenTile& t, int64_t query, int64_t group) {
  __m512 sums[kQueries][kVectors];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  const uint32_t* queries = t.queries + query * t.steps;
  const uint32_t* keys = t.keys + group * t.steps * kGroupKeys;
  for (int64_t s = 0; s < t.steps; ++s) {
    __m512bh key[kVectors];
    for (int v = 0; v < kVectors; ++v) key[v] = (__m512bh)_mm512_loadu_si512(keys + (v * t.steps + s) * kGroupKeys);
    for (int i = 0; i < kQueries; ++i) {
      const __m512bh x = (__m512bh)_mm512_set1_epi32(static_cast<int32_t>(queries[i * t.steps + s]));
      for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], key[v], x);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    const __m512 least = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(t.thresholds[query + i])));
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(t.scores + (query + i) * kBlockKeys + (group + v) * kGroupKeys, sums[i][v]);
      t.hits[(query + i) * kGroups + group + v] = _mm512_cmp_ps_mask(sums[i][v], least, _CMP_GE_OQ);
    }
  }
}

FOVEA_VNNI inline void int8_micro_tile(const ScreenTile& t, int64_t query, int64_t group) {
  __m512i sums[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (__m512i& sum : sums[i]) sum = _mm512_set1_epi32(static_cast<int32_t>(t.start[query + i]));
  }
  const uint32_t* queries = t.queries + query * t.steps;
  const uint32_t* keys = t.keys + group * t.steps * kGroupKeys;
  for (int64_t s = 0; s < t.steps; ++s) {
    __m512i key[kVectors];
    for (int v = 0; v < kVectors; ++v) key[v] = _mm512_loadu_si512(keys + (v * t.steps + s) * kGroupKeys);
    for (int i = 0; i < kQueries; ++i) {
      const __m512i x = _mm512_set1_epi32(static_cast<int32_t>(queries[i * t.steps + s]));
      for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], key[v], x);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    const __m512i least = _mm512_set1_epi32(static_cast<int32_t>(t.thresholds[query + i]));
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(t.scores + (query + i) * kBlockKeys + (group + v) * kGroupKeys, sums[i][v]);
      t.hits[(query + i) * kGroups + group + v] = _mm512_cmpge_epi32_mask(sums[i][v], least);
    }
  }
}

}  // namespace

FOVEA_BF16 void screen_product_bf16(const ScreenTile& tile) {
  for (int64_t group = 0; group < tile.num_tiles * kVectors; group += kVectors) {
    for (int64_t query = 0; query < tile.num_queries; query += kQueries) bf16_micro_tile(tile, query, group);
  }
}

FOVEA_VNNI void screen_product_int8(const ScreenTile& tile) {
  for (int64_t group = 0; group < tile.num_tiles * kVectors; group += kVectors) {
    for (int64_t query = 0; query < tile.num_queries; query += kQueries) int8_micro_tile(tile, query, group);
  }
}

#undef FOVEA_BF16
#undef FOVEA_VNNI

bool has_int8_product() { return isa() >= Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") != 0; }

}  // namespace fovea::kernels

#else

namespace fovea::kernels {
void screen_product_bf16(const ScreenTile&) {}  // never chosen: has_int8_product() and isa() say so
void screen_product_int8(const ScreenTile&) {}
bool has_int8_product() { return false; }
}  // namespace fovea::kernels

#endif
