#pragma once
#include <cstdint>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/dropout.h"

// The dropout mask of activations, defined once: element i of a tensor draws from (seed, i), so that every kernel,
// device and backward pass sees the same mask and none is stored.
namespace fovea::kernels {

// Elements share a key in blocks of 2^32, within which the counter is 32 bits wide.
constexpr uint32_t element_dropout_key(int64_t seed, int64_t index) {
  return static_cast<uint32_t>(hash_combine(static_cast<uint64_t>(seed), static_cast<uint64_t>(index) >> 32) >> 32);
}

constexpr bool element_survives(int64_t seed, int64_t index, uint32_t threshold) {
  return hash32(element_dropout_key(seed, index), static_cast<uint32_t>(index)) >= threshold;
}

}  // namespace fovea::kernels
