#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"
#if FOVEA_ISA == 1
#include "fovea/kernels/attention/cpu/screen_avx2-inl.h"
#endif

namespace fovea::kernels {

#if FOVEA_ISA == 1

// Four times the rate of float32: vpmaddubsw multiplies 32 bytes of keys by those of a query and adds neighbours. It
// saturates at 16 bits, which no pair reaches: 2 * 255 * 64 = 32640. The sums wrap around on their way and come out
// right, because their final values fit in 16 bits (screen_pack_isa.cc).
namespace {

// One query's sums over kPairKeys keys.
struct Sums {
  static constexpr int kKeys = kPairKeys;
  __m256i low, high;

  explicit Sums(const uint32_t* start) : low(word(start)), high(low) {}
  void add(__m256i keys_low, __m256i keys_high, __m256i x) {
    low = _mm256_add_epi16(low, _mm256_maddubs_epi16(keys_low, x));
    high = _mm256_add_epi16(high, _mm256_maddubs_epi16(keys_high, x));
  }
  void finish(const ScreenTile& t, int64_t query, int64_t part) const {
    auto* scores = reinterpret_cast<__m256i*>(reinterpret_cast<int16_t*>(t.scores + query * kScoreStride)) + 2 * part;
    _mm256_storeu_si256(scores, low);
    _mm256_storeu_si256(scores + 1, high);
    const __m256i least = word(t.thresholds + query);
    const __m256i below = _mm256_packs_epi16(_mm256_cmpgt_epi16(least, low), _mm256_cmpgt_epi16(least, high));
    // The pack instruction works on halves of 128 bits, so the quarters are put in order afterwards.
    const auto reached = ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(below, 0xd8)));
    std::memcpy(t.hits + query * kBlockGroups + part * (kPairKeys / kGroupKeys), &reached, sizeof reached);
  }
};

}  // namespace

void screen_product_pairs(const ScreenTile& tile) { screen_product_of<Sums>(tile); }

#elif FOVEA_ISA == 0 && !defined(__x86_64__)
void screen_product_pairs(const ScreenTile&) {}  // never chosen: isa() says so
#endif

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
