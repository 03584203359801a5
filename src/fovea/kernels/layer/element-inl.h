#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// Loads and stores of floats and of bfloat16 bits alike.
namespace fovea::kernels {
namespace {

inline F load(const uint16_t* p) { return load_bf16(p); }
inline void store(uint16_t* p, F v) { store_bf16(p, v); }
inline F load_part(const uint16_t* p, int64_t n) {
  uint16_t whole[kLanes] = {};
  if (n > 0) std::memcpy(whole, p, static_cast<size_t>(n < kLanes ? n : kLanes) * sizeof *p);
  return load_bf16(whole);
}
inline void store_part(uint16_t* p, F v, int64_t n) {
  uint16_t whole[kLanes];
  store_bf16(whole, v);
  if (n > 0) std::memcpy(p, whole, static_cast<size_t>(n < kLanes ? n : kLanes) * sizeof *p);
}

// n elements exist at p; of kLanes or more all lanes are used.
template <class T>
inline F load_some(const T* p, int64_t n) {
  return n >= kLanes ? load(p) : load_part(p, n);
}
template <class T>
inline void store_some(T* p, F v, int64_t n) {
  if (n >= kLanes) {
    store(p, v);
  } else {
    store_part(p, v, n);
  }
}

inline float to_float(float x) { return x; }
inline float to_float(uint16_t x) {
  const uint32_t wide = uint32_t{x} << 16;
  float y;
  std::memcpy(&y, &wide, sizeof y);
  return y;
}

}  // namespace
}  // namespace fovea::kernels
