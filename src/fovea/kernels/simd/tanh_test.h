#pragma once
#include <cstdint>

namespace fovea::kernels {

// tanh and its slope of x [n], n a multiple of 16, by the vectors of a level, for tanh_test.cc.
using TanhRun = void (*)(const float* x, int64_t n, float* values, float* slopes);
void tanh_by_plain_vectors(const float* x, int64_t n, float* values, float* slopes);
// AVX2 or NEON, and AVX-512; not to be called where the machine lacks them.
void tanh_by_vectors(const float* x, int64_t n, float* values, float* slopes);
void tanh_by_wide_vectors(const float* x, int64_t n, float* values, float* slopes);

}  // namespace fovea::kernels
