#pragma once
#include <cstdint>
#include <functional>

#include "fovea/nn/attention_observer.h"

namespace fovea::nn {

// The weights of queries first_query ... first_query + queries - 1 of one sequence. Head h gives query i (from
// first_query) and key j the weight data[h * head_stride + i * row_stride + j]. `keys` is the whole sequence's number
// of keys, but with a causal limit a block has columns for keys up to its last query only.
struct WeightBlock {
  int64_t sequence = 0, first_query = 0, queries = 0;
  int64_t heads = 0, keys = 0, columns = 0;
  // The sequence's query i stands at key position first_position + i; 0 for cross-attention.
  int64_t first_position = 0;
  const float* data = nullptr;
  int64_t head_stride = 0, row_stride = 0;
};

inline constexpr int64_t kMostBlockWeights = int64_t{1} << 21;

// Shows `see` the weights of an attention, in float32: the sequences in their order, and each one's queries in their
// order. Short sequences are computed together and long ones by blocks of queries, so that about `most` weights are in
// memory at a time. Only non-causal attention that compares positions needs all pairs of a sequence at once.
void each_weight_block(const SeenAttention& seen, const std::function<void(const WeightBlock&)>& see,
                       int64_t most = kMostBlockWeights);

}  // namespace fovea::nn
