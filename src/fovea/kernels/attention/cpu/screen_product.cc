#include "fovea/kernels/attention/cpu/screen.h"

// The product of bytes by VNNI, with the instruction sets switched on for these functions alone. A micro-tile of 6
// queries by 64 keys keeps 24 sums, 4 vectors of keys and a query's word in the 32 registers: named variables, as GCC
// 12 leaves arrays of them in memory, and the instructions as they are, as it copies sums around their intrinsics.
#if defined(__x86_64__)
#include <immintrin.h>

namespace fovea::kernels {
namespace {

#define FOVEA_SCREEN __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"), always_inline)) inline

// sum += key . x, four unsigned bytes of the key by four signed ones a lane.
FOVEA_SCREEN void add_product(__m512i& sum, __m512i key, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(key), "v"(x));
}

FOVEA_SCREEN __m512i word(const uint32_t* p) { return _mm512_set1_epi32(static_cast<int32_t>(*p)); }

// One query's sums over 64 keys.
struct Sums {
  __m512i a, b, c, d;

  FOVEA_SCREEN explicit Sums(const uint32_t* start) : a(word(start)), b(a), c(a), d(a) {}
  FOVEA_SCREEN void add(__m512i k0, __m512i k1, __m512i k2, __m512i k3, __m512i x) {
    add_product(a, k0, x);
    add_product(b, k1, x);
    add_product(c, k2, x);
    add_product(d, k3, x);
  }
  FOVEA_SCREEN void finish(const ScreenTile& t, int64_t query, int64_t group) const {
    uint32_t* scores = t.scores + query * kScoreStride + group * kGroupKeys;
    uint16_t* hits = t.hits + query * kBlockGroups + group;
    const __m512i least = word(t.thresholds + query);
    _mm512_storeu_si512(scores, a);
    _mm512_storeu_si512(scores + 16, b);
    _mm512_storeu_si512(scores + 32, c);
    _mm512_storeu_si512(scores + 48, d);
    hits[0] = _mm512_cmpge_epi32_mask(a, least);
    hits[1] = _mm512_cmpge_epi32_mask(b, least);
    hits[2] = _mm512_cmpge_epi32_mask(c, least);
    hits[3] = _mm512_cmpge_epi32_mask(d, least);
  }
};

FOVEA_SCREEN void micro_tile(const ScreenTile& t, int64_t query, int64_t group) {
  const uint32_t* start = t.start + query;
  Sums s0(start), s1(start + 1), s2(start + 2), s3(start + 3), s4(start + 4), s5(start + 5);
  const int64_t steps = t.steps, stride = steps * kGroupKeys;
  const uint32_t* x = t.queries + query * steps;
  const uint32_t* keys = t.keys + group * stride;
  for (int64_t s = 0; s < steps; ++s, ++x, keys += kGroupKeys) {
    const __m512i k0 = _mm512_loadu_si512(keys), k1 = _mm512_loadu_si512(keys + stride);
    const __m512i k2 = _mm512_loadu_si512(keys + 2 * stride), k3 = _mm512_loadu_si512(keys + 3 * stride);
    s0.add(k0, k1, k2, k3, word(x));
    s1.add(k0, k1, k2, k3, word(x + steps));
    s2.add(k0, k1, k2, k3, word(x + 2 * steps));
    s3.add(k0, k1, k2, k3, word(x + 3 * steps));
    s4.add(k0, k1, k2, k3, word(x + 4 * steps));
    s5.add(k0, k1, k2, k3, word(x + 5 * steps));
  }
  s0.finish(t, query, group);
  s1.finish(t, query + 1, group);
  s2.finish(t, query + 2, group);
  s3.finish(t, query + 3, group);
  s4.finish(t, query + 4, group);
  s5.finish(t, query + 5, group);
}

#undef FOVEA_SCREEN

}  // namespace

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) void screen_product_int8(const ScreenTile& tile) {
  for (int64_t group = 0; group < tile.num_tiles * 4; group += 4) {
    for (int64_t query = 0; query < tile.num_queries; query += 6) micro_tile(tile, query, group);
  }
}

}  // namespace fovea::kernels

#else

namespace fovea::kernels {
void screen_product_int8(const ScreenTile&) {}  // never chosen: has_int8_product() says so
}  // namespace fovea::kernels

#endif
