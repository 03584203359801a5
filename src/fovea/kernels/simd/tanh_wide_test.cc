#include "fovea/kernels/simd/tanh_test.h"

#if defined(__x86_64__)
#include <cstring>

#include "fovea/kernels/simd/isa.h"
#define FOVEA_ISA 2
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors stay within this file
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/simd/tanh_run_test-inl.h"

namespace fovea::kernels {
void tanh_by_wide_vectors(const float* x, int64_t n, float* values, float* slopes) { run_tanh(x, n, values, slopes); }
}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"

#else

namespace fovea::kernels {
void tanh_by_wide_vectors(const float*, int64_t, float*, float*) {}  // never called: the machine lacks the level
}  // namespace fovea::kernels

#endif
