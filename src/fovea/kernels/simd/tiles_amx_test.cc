#include "fovea/kernels/simd/tiles_test.h"

#if defined(__x86_64__)
#include <cstring>

#include "fovea/kernels/simd/isa.h"
#define FOVEA_ISA 3
#define FOVEA_TILES 1
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors stay within this file
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/simd/tiles-inl.h"

namespace fovea::kernels {
namespace {

template <class Multiply>
void multiply_by(const TileOperands& of, const Multiply& multiply) {
  const TileSession session;
  load_tile<0>(of.sums, kTileRowBytes);
  load_tile<6>(of.left, kTileRowBytes);
  load_tile<7>(of.right, kTileRowBytes);
  multiply();
  store_tile<0>(of.sums, kTileRowBytes);
}

}  // namespace

void multiply_bf16_by_amx(const TileOperands& of) {
  multiply_by(of, [] { multiply_bf16_tiles<0, 6, 7>(); });
}
void multiply_int8_by_amx(const TileOperands& of) {
  multiply_by(of, [] { multiply_int8_tiles<0, 6, 7>(); });
}

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"

#else

namespace fovea::kernels {
void multiply_bf16_by_amx(const TileOperands&) {}  // never called: best_isa() says so
void multiply_int8_by_amx(const TileOperands&) {}
}  // namespace fovea::kernels

#endif
