#pragma once
#include <bit>
#include <cstdint>

namespace fovea::kernels {

// Floats as integers in the same order, so that an interval of them can be halved; no NaN.
inline uint32_t ordered(float x) {
  const auto code = std::bit_cast<uint32_t>(x);
  return (code >> 31) != 0 ? ~code : code | 0x80000000U;
}
inline float from_ordered(uint32_t code) {
  return std::bit_cast<float>((code >> 31) != 0 ? code & 0x7fffffffU : ~code);
}

}  // namespace fovea::kernels
