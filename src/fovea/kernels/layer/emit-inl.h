#pragma once
#include "fovea/kernels/layer/pack-inl.h"

// Targets of a tile's sums.
namespace fovea::kernels {
namespace {

inline int64_t pieces_of(int64_t count, int64_t size) { return (count + size - 1) / size; }
inline int64_t padded_to(int64_t count, int64_t size) { return pieces_of(count, size) * size; }

// Written to a matrix of floats, or added to it.
struct Write {
  static constexpr bool kAdds = false;
  float* sums;
  int64_t stride;

  void row(int64_t r, F low, F high) const {
    store(sums + r * stride, low);
    store(sums + r * stride + kLanes, high);
  }
};

struct Accumulate {
  static constexpr bool kAdds = true;
  float* sums;
  int64_t stride;

  void row(int64_t r, F low, F high) const {
    float* to = sums + r * stride;
    store(to, load(to) + low);
    store(to + kLanes, load(to + kLanes) + high);
  }
};

template <class T>
inline void write_row(const float* from, T* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) store_some(to + i, load_some(from + i, count - i), count - i);
}

}  // namespace
}  // namespace fovea::kernels
