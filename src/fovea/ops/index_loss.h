#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

// The training target of the indexer of DeepSeek sparse attention (index_topk.h). `indices` [B, S, n] int32 are the
// keys that it chose, in any order, -1 for none. Throws an Error if shapes, types or indices do not go together.
namespace fovea::ops {

// Returns the weights of softmax attention of q [B, H, S, D] over the chosen keys of k [B, H_kv, T, D], averaged over
// the heads: [B, S, n], float32 (float64 if q is), 0 where no key was chosen. Head h reads key head h / (H / H_kv).
// scale defaults to 1 / sqrt(D). No derivatives. float32 and bfloat16 on the CPU have a kernel.
at::Tensor index_target(const at::Tensor& q, const at::Tensor& k, const at::Tensor& indices,
                        std::optional<double> scale = std::nullopt);

struct IndexLossSums {
  at::Tensor loss, queries;  // [], float32: the sum over queries, and how many have a loss
  at::Tensor q, k, weights;  // gradients of the sum, as the inputs; [0] if they are not wanted
};

// The KL divergence from target [B, S, n], each of whose rows is divided by its sum, to the softmax of the indexer's
// scores of the chosen keys. q [B, S, H, D], k [B, T, D], weights [B, S, H], float32 or bfloat16 on the CPU.
IndexLossSums index_loss(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weights, const at::Tensor& indices,
                         const at::Tensor& target, bool gradients);

}  // namespace fovea::ops
