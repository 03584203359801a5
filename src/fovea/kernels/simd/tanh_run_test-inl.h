#pragma once
#include "fovea/kernels/simd/tanh-inl.h"

namespace fovea::kernels {
namespace {

inline void run_tanh(const float* x, int64_t n, float* values, float* slopes) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Tanh of = tanh(load(x + i));
    store(values + i, of.value);
    store(slopes + i, of.slope);
  }
}

}  // namespace
}  // namespace fovea::kernels
