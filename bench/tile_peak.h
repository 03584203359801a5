#pragma once
#include <cstdint>

// Products of tiles from registers, four sums in turn, as a product of two by two tiles has them. Operations of one
// call; only where isa() is avx512-amx.
namespace fovea::bench {

double bfloat16_tiles(int64_t rounds);
double int8_tiles(int64_t rounds);

}  // namespace fovea::bench
