#pragma once
#include "fovea/kernels/attention/cpu/extent-inl.h"
// Include <algorithm>, <cmath>, <cstring>, key_screen.h and rows.h before.

// A vector as whole numbers from -127 to 127 and a step, with what their rounding leaves.
namespace fovea::kernels {
namespace {

// The greatest magnitude of a vector that is screened. Products of two and their rounding then stay far within float's
// normal range.
constexpr float kLeastScreened = 0x1p-40F, kMostScreened = 0x1p40F;
// A key's step is at least this part of its greatest magnitude, though it may lie nearer to the centre: the rounding of
// an exact score counts relative to the key itself.
constexpr float kLeastStep = 0x1p-14F;

constexpr int64_t padded_floats(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

// Norms in units of the step, with the rounding on the way to them.
struct UnitNorms {
  float whole = 0, rest = 0;  // of the vector, and of what its whole numbers leave of it
};
struct UnitForm {
  float inverse = 1;  // of the step; negative: the whole numbers are those of -x
  int64_t bytes = 0;
};

inline UnitNorms to_units(const float* x, const float* centre, int64_t width, const UnitForm& form, int8_t* units) {
  F whole = set(0), rest = set(0);
  const int64_t padded = padded_floats(width);
  alignas(64) int32_t rounded[kMaxRowsHeadDim];
  for (int64_t i = 0; i < padded; i += kLanes) {
    const F y = (centre == nullptr ? load(x + i) : load(x + i) - load(centre + i)) * set(form.inverse);
    const F unit = max(set(-127), min(set(127), round(y)));
    const F lost = y - unit;
    whole = fma(y, y, whole);
    rest = fma(lost, lost, rest);
    store_int(rounded + i, to_int(unit));
  }
  for (int64_t i = 0; i < width; ++i) units[i] = static_cast<int8_t>(rounded[i]);
  std::memset(units + width, 0, static_cast<size_t>(form.bytes - width));
  // The inverse, its product and the difference from the centre are rounded, and so are the sums of squares.
  const float norm = std::sqrt(sum(whole)) * (1 + 0x1p-10F);
  return {norm, std::sqrt(sum(rest)) * (1 + 0x1p-10F) + norm * 0x1p-20F + 0x1p-20F};
}

}  // namespace
}  // namespace fovea::kernels
