#include "tile_peak.h"

#if defined(__x86_64__)
#include <cstring>

#include "fovea/kernels/simd/isa.h"
#define FOVEA_ISA 3
#define FOVEA_TILES 1
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors stay within this file
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"
//
#include "fovea/kernels/simd/tiles-inl.h"

namespace fovea::bench {

using namespace kernels;

double bfloat16_tiles(int64_t rounds) {
  const TileSession session;
  for (int64_t i = 0; i < rounds; ++i) {
    multiply_bf16_tiles<0, 4, 6>();
    multiply_bf16_tiles<1, 4, 7>();
    multiply_bf16_tiles<2, 5, 6>();
    multiply_bf16_tiles<3, 5, 7>();
  }
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

double int8_tiles(int64_t rounds) {
  const TileSession session;
  for (int64_t i = 0; i < rounds; ++i) {
    multiply_int8_tiles<0, 4, 6>();
    multiply_int8_tiles<1, 4, 7>();
    multiply_int8_tiles<2, 5, 6>();
    multiply_int8_tiles<3, 5, 7>();
  }
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(rounds);
}

}  // namespace fovea::bench
#include "fovea/kernels/simd/isa_end-inl.h"

#else

namespace fovea::bench {
double bfloat16_tiles(int64_t) { return 0; }  // never called: isa() says so
double int8_tiles(int64_t) { return 0; }
}  // namespace fovea::bench

#endif
