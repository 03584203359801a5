#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

// The indexer of DeepSeek sparse attention (kernels/indexer/index_topk.h): which keys a query attends to.
namespace fovea::ops {

struct IndexOptions {
  bool causal = true;  // query i of a sequence sees its keys up to i + N_k - N_q
  // Packed only: [B + 1] int64 on the CPU, where sequences begin and end. k_offsets default to q_offsets, both to a
  // single sequence.
  std::optional<at::Tensor> q_offsets = {}, k_offsets = {};
};

// Returns, for each query, the `k_best` keys with the greatest scores, the sum over heads h of
// weights[h] max(0, q[h] . k): int32, ascending, -1 behind them if the query sees fewer keys. Of equal scores the
// earlier key is taken; NaN counts as infinity.
//   dense   q [B, S, H, D], k [B, T, D], weights [B, S, H] -> [B, S, k_best]
//   packed  q [T_q, H, D], k [T_k, D], weights [T_q, H] -> [T_q, k_best], counted from a sequence's first key
// q and k are of one floating type; weights of that or float32. float32 and bfloat16 on the CPU have a kernel, which
// needs memory for k in float32 and O(k_best) numbers per query; others are computed by torch's operators in blocks of
// queries. No derivatives. Throws an Error if shapes, types or offsets do not go together.
at::Tensor index_topk(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights, int64_t k_best,
                      const IndexOptions& options = {});

}  // namespace fovea::ops
