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

// Twice the rate of float32: vpmaddwd multiplies 16 pairs and adds neighbours exactly.
namespace {

struct Sums {
  static constexpr int kKeys = kGroupKeys;
  I low = {}, high = {};

  explicit Sums(const uint32_t*) {}  // sums of this format begin with 0
  void add(__m256i keys_low, __m256i keys_high, __m256i x) {
    low += (I)_mm256_madd_epi16(keys_low, x);
    high += (I)_mm256_madd_epi16(keys_high, x);
  }
  void finish(const ScreenTile& t, int64_t query, int64_t group) const {
    auto* scores = reinterpret_cast<int32_t*>(t.scores) + query * kScoreStride + group * kGroupKeys;
    store_int(scores, low);
    store_int(scores + kLanes, high);
    const I least = (I)word(t.thresholds + query);
    const uint32_t reached = bits({(F)(low >= least)}) | bits({(F)(high >= least)}) << kLanes;
    t.hits[query * kBlockGroups + group] = static_cast<uint16_t>(reached);
  }
};

}  // namespace

void screen_product_int16(const ScreenTile& tile) { screen_product_of<Sums>(tile); }

#elif FOVEA_ISA == 0 && !defined(__x86_64__)
void screen_product_int16(const ScreenTile&) {}  // never chosen: isa() says so
#endif

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
