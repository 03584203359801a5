#include "fovea/kernels/attention/cpu/screen_ops.h"

namespace fovea::kernels {

const ScreenOps& screen_ops() {
  return with_isa([](auto tag) -> const ScreenOps& {
    using Tag = decltype(tag);
    static const ScreenOps kOps = {
        &ScreenPack<Tag>::keys,         &ScreenPack<Tag>::query,        &ScreenPack<Tag>::product_float,
        &ScreenScan<Tag>::append,       &ScreenScan<Tag>::sample,       &ScreenScan<Tag>::moments,
        &ScreenScan<Tag>::mark,         &ScreenScan<Tag>::prune,        &ScreenScan<Tag>::reached_by,
        &ScreenScan<Tag>::kth_greatest, &ScreenScan<Tag>::greatest,     &ExactRows<Tag>::fetch,
        &ExactRows<Tag>::dots,          &ExactRows<Tag>::weighted_sum,  &ExactRows<Tag>::scatter,
        &ExactRows<Tag>::exponentials,  &EntmaxSolve<Tag>::root,        &EntmaxSolve<Tag>::blend,
        &EntmaxSolve<Tag>::weights,     &EntmaxSolve<Tag>::derivatives,
    };
    return kOps;
  });
}

ScreenFormat fastest_screen_format() {
  if (has_int8_product()) return ScreenFormat::kInt8;
  if (isa() == Isa::kAvx512Bf16) return ScreenFormat::kBFloat16;
  return isa() == Isa::kAvx2 ? ScreenFormat::kInt16 : ScreenFormat::kFloat32;
}

ScreenProduct screen_product(ScreenFormat format) {
  if (format == ScreenFormat::kInt8) return &screen_product_int8;
  if (format == ScreenFormat::kInt16) return &screen_product_int16;
  if (format == ScreenFormat::kBFloat16) return &screen_product_bf16;
  return screen_ops().product_float;
}

}  // namespace fovea::kernels
