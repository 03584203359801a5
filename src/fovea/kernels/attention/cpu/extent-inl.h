#pragma once
#include "fovea/kernels/simd/simd-inl.h"
// Include <cmath> before.

// How large a vector is. Its length is a multiple of kLanes; a centre to subtract from it may be null.
namespace fovea::kernels {
namespace {

struct Extent {
  float top = 0;       // greatest |.|
  bool finite = true;  // no NaN or infinity
};

inline Extent extent_of(const float* x, const float* centre, int64_t length) {
  F top = set(0), poison = set(0);
  for (int64_t i = 0; i < length; i += kLanes) {
    const F value = centre == nullptr ? load(x + i) : load(x + i) - load(centre + i);
    top = max(top, abs(value));
    poison = fma(value, set(0), poison);
  }
  return {greatest(top), sum(poison) == 0};
}

// Returns |(x - centre) factor|.
inline float norm_of(const float* x, const float* centre, int64_t length, float factor) {
  F squares = set(0);
  for (int64_t i = 0; i < length; i += kLanes) {
    const F y = (centre == nullptr ? load(x + i) : load(x + i) - load(centre + i)) * set(factor);
    squares = fma(y, y, squares);
  }
  return std::sqrt(sum(squares));
}

}  // namespace
}  // namespace fovea::kernels
