#pragma once
#include <cstdint>

#include "fovea/base/rng.h"

// The random numbers of attention, defined once so that every kernel, the reference and backward draw the same ones.
namespace fovea::kernels {

// Row::stream of a head: what random patterns draw from.
constexpr uint64_t pattern_stream(uint64_t seed, int64_t layer, int64_t head) {
  return hash_combine(hash_combine(seed, static_cast<uint64_t>(layer)), static_cast<uint64_t>(head));
}

// Dropout on weights. A row is one query token (its index in q, over all sequences; b * N_q + i in dense batches) of
// one head (counted over the whole layer: first_head + h); 64-bit arithmetic once per row, 32-bit lanes within it.
constexpr uint32_t dropout_row_key(uint64_t dropout_key, int64_t head, int64_t query_token) {
  return static_cast<uint32_t>(
      hash_combine(hash_combine(dropout_key, static_cast<uint64_t>(head)), static_cast<uint64_t>(query_token)) >> 32);
}

// rate * 2^32, in [0, 2^32): the hash is below it with probability `rate`.
constexpr uint32_t dropout_threshold(float rate) {
  return rate <= 0 ? 0U : static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

// Whether the weight of the key at `key_position` of its sequence survives; it is then multiplied by dropout_scale.
constexpr bool dropout_keeps(uint32_t row_key, uint32_t key_position, uint32_t threshold) {
  return hash32(row_key, key_position) >= threshold;
}

constexpr float dropout_scale(float rate) { return 1.0F / (1.0F - rate); }

}  // namespace fovea::kernels
