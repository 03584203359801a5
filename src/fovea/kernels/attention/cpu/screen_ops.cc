#include "fovea/kernels/attention/cpu/screen_ops.h"

namespace fovea::kernels {

const ScreenOps& screen_ops() {
  return with_isa([](auto tag) -> const ScreenOps& {
    constexpr Isa kIsa = decltype(tag)::kIsa;
    static const ScreenOps kOps = {
        &ScreenPack<kIsa>::keys,       &ScreenPack<kIsa>::query,        &ScreenPack<kIsa>::product_float,
        &ScreenScan<kIsa>::append,     &ScreenScan<kIsa>::sample,       &ScreenScan<kIsa>::moments,
        &ScreenScan<kIsa>::add_terms,  &ScreenScan<kIsa>::mark,         &ScreenScan<kIsa>::prune,
        &ScreenScan<kIsa>::reached_by, &ScreenScan<kIsa>::kth_greatest, &ScreenScan<kIsa>::greatest,
        &ExactRows<kIsa>::fetch,       &ExactRows<kIsa>::dots,          &ExactRows<kIsa>::weighted_sum,
        &ExactRows<kIsa>::scatter,     &ExactRows<kIsa>::exponentials,  &EntmaxSolve<kIsa>::root,
        &EntmaxSolve<kIsa>::blend,     &EntmaxSolve<kIsa>::weights,     &EntmaxSolve<kIsa>::derivatives,
    };
    return kOps;
  });
}

namespace {

// Whether the faster product of pairs of bytes saves more than its candidates cost. Sums of 16 bits leave fewer bits to
// each number of a wider vector, so the bound on the error grows with the width, and with it the share of the selected
// keys by which the candidates are more. Measured with topk of 8 and 32 and entmax, widths 64 and 128, 512 to 8,192
// keys.
bool pairs_pay(const ScreenWork& work) {
  constexpr int64_t kWidest = 128, kLeastKeys = 600, kKeysPerSelected = 16, kMeasuredWidth = 64;
  const int64_t least = (kLeastKeys + kKeysPerSelected * work.selected) * work.width / kMeasuredWidth;
  return work.width <= kWidest && work.keys >= least;
}

}  // namespace

ScreenFormat fastest_screen_format(const ScreenWork& work) {
  if (has_tiles() || has_int8_product()) return ScreenFormat::kInt8;
  if (vector_isa() != Isa::kAvx2) return ScreenFormat::kFloat32;
  return pairs_pay(work) ? ScreenFormat::kBytePairs : ScreenFormat::kInt16;
}

int64_t screen_steps(ScreenFormat format, int64_t width) {
  const int64_t words = width / values_per_word(format);
  return has_tiles() && format == ScreenFormat::kInt8 ? (words + 15) / 16 * 16 : words;
}

ScreenProduct screen_product(ScreenFormat format) {
#if defined(__x86_64__) && FOVEA_LEVEL_MASK & 16
  if (format == ScreenFormat::kInt8 && isa() == Isa::kAvx512Amx) return &ScreenTiles<Isa::kAvx512Amx>::product_int8;
#endif
#if FOVEA_EMULATED_TILES
  if (format == ScreenFormat::kInt8 && has_tiles()) return &ScreenTiles<Isa::kAmxEmulated>::product_int8;
#endif
  if (format == ScreenFormat::kInt8) {
    return with_isa([](auto tag) -> ScreenProduct {
      constexpr Isa kIsa = decltype(tag)::kIsa;
      if constexpr (kIsa >= Isa::kNeonDot) return &ScreenDot<kIsa>::product_int8;
      return &screen_product_int8;
    });
  }
#if !defined(__x86_64__) || FOVEA_LEVEL_MASK & 2
  if (format == ScreenFormat::kInt16) return &screen_product_int16;
  if (format == ScreenFormat::kBytePairs) return &screen_product_pairs;
#endif
  return screen_ops().product_float;
}

}  // namespace fovea::kernels
