#pragma once
#include "fovea/kernels/simd/simd-inl.h"
// Include base/rng.h before.

namespace fovea::kernels {
namespace {

// hash32 of base/rng.h in every lane: vectors beyond a function's instruction set would not pass through that one.
inline U hash32_of(uint32_t key, U counter) {
  U x = counter ^ set_uint(key);
  x = (x ^ (x >> 16)) * kHash32First;
  x = (x ^ (x >> 15)) * kHash32Second;
  x ^= (x >> 16) ^ set_uint(key * kHash32Key);
  x = (x ^ (x >> 16)) * kHash32First;
  x = (x ^ (x >> 15)) * kHash32Second;
  return x ^ (x >> 16);
}

}  // namespace
}  // namespace fovea::kernels
