#pragma once
#include <cstdint>

namespace fovea::kernels {

// One product of tiles, for tiles_test.cc: sums [16][16] += left [16][16] . right [16][16], of words.
struct TileOperands {
  uint32_t* sums;
  const uint32_t *left, *right;
};

// Multiply with the AMX instructions.
void multiply_bf16_by_amx(const TileOperands& of);
void multiply_int8_by_amx(const TileOperands& of);

}  // namespace fovea::kernels
