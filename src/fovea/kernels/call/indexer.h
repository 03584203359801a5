#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "fovea/kernels/call/tensor_view.h"

// The conditions of the operators of the indexer (kernels/indexer), for every skin of the kernels: each text stands
// here alone. A function throws an Error if its condition does not hold, and reads sizes and types alone.
namespace fovea::kernels {

// [B, S, H, D], [B, T, D] and [B, S, H], or packed [T_q, H, D], [T_k, D] and [T_q, H], with offsets of sequences.
struct IndexTopkViews {
  TensorView q, k, weights;
  std::optional<TensorView> q_offsets = {}, k_offsets = {};
};
void check_index_topk(const IndexTopkViews& x, int64_t k_best);
// The keys of all sequences together, which kernels count in 32 bits.
void check_index_keys(int64_t keys);

// [B, H, N_q, D] and [B, H_kv, N_k, D], or packed [T_q, H, D] and [T_k, H_kv, D].
struct BlockTopkViews {
  TensorView q, k;
  std::optional<TensorView> q_offsets = {}, k_offsets = {}, lengths = {};
};
void check_block_topk(const BlockTopkViews& x, int64_t block_size, int64_t k_best);

struct IndexTargetViews {
  TensorView q, k, indices;  // [B, H, S, D], [B, H_kv, T, D], [B, S, n]
};
void check_index_target(const IndexTargetViews& x);

struct IndexLossViews {
  TensorView q, k, weights, indices, target;  // [B, S, H, D], [B, T, D], [B, S, H], and twice [B, S, n]
};
void check_index_loss(const IndexLossViews& x);
// The types and the device that the kernel of the loss takes.
void check_index_loss_kernel(const IndexLossViews& x);

// The least and the greatest of the indices: they name keys of a sequence, or are -1 for none.
void check_index_range(int64_t least, int64_t greatest, int64_t keys, std::string_view caller);

}  // namespace fovea::kernels
