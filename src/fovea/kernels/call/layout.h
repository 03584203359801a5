#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/call/tensor_view.h"

// The layouts in which callers give sequences, read without torch: packed [T, H, D] with offsets, and dense
// [B, H, N, D] with lengths.
namespace fovea::kernels {

// The vectors that tell where sequences begin and end; int64 on the CPU. A vector that a call does not have is empty.
struct SequenceVectors {
  std::optional<TensorView> q_offsets, k_offsets;  // packed
  std::optional<TensorView> k_begins, k_tokens;    // packed, with k_lengths
  std::optional<TensorView> q_lengths, k_lengths;  // dense
};

// The sizes of q and k. Packed: one sequence of T_q and T_k tokens.
struct CallSizes {
  bool packed = false;
  int64_t batch = 1, queries = 0, keys = 0;
};

// Reads the offsets or lengths; throws an Error if they do not fit the sizes.
std::vector<Sequence> read_sequences(const CallSizes& sizes, const SequenceVectors& vectors);

// Returns k_tokens, all of them tokens of k; empty without. Throws an Error otherwise.
std::span<const int64_t> read_key_tokens(const CallSizes& sizes, const SequenceVectors& vectors);

}  // namespace fovea::kernels
