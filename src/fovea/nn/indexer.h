#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "fovea/nn/forward_context.h"
#include "fovea/nn/layers.h"
#include "fovea/ops/index_topk.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/stack_config.h"

// The indexer of an attention with dsa(k) (spec/attention_spec.h): small heads that choose the keys of each query. T
// queries, T_k keys, H heads and K key heads of width D of the attention; J heads of width W of the indexer.
namespace fovea::nn {

// Reads the queries and keys of its attention as the mechanism does, with their positions, and learns by a loss of its
// own: no gradient flows from it to the attention, or back. The score of a pair is the sum over the heads j of
//     weights[j] relu(q[j] . k).
// It begins as a sketch of the attention: random projections nearly keep products. Parameters: query.weight [J W, H D],
// key.weight [W, K D], weights.weight [J, H D] and weights.bias [J].
class Indexer : public torch::nn::Module {
 public:
  struct Shape {
    int64_t heads, key_heads, head_dim;  // of the attention
  };
  Indexer(const Shape& shape, const IndexerConfig& config, const InitScope& scope);

  // Packed sequences of queries and keys, with their offsets.
  struct Pairs {
    const at::Tensor& q;  // [T, H, D]
    const at::Tensor& k;  // [T_k, K, D]
    ops::IndexOptions options;
  };
  // Returns the `count` keys of each query that it scores highest, int32 [T, count], as ops::PairLists has them.
  at::Tensor choose(const Pairs& pairs, int64_t count) const;
  // Like choose(), for keys that keys() has projected.
  at::Tensor choose_among(const at::Tensor& q, const at::Tensor& keys, const ops::IndexOptions& options,
                          int64_t count) const;
  at::Tensor keys(const at::Tensor& k) const;  // [T_k, K, D] -> [T_k, W]

  // Adds the loss of a pass to context.extras: the mean over the queries of the KL divergence from what softmax
  // attention, averaged over its heads, gives to the candidates, the index_candidates * count keys that the indexer
  // scores highest, to the softmax of their scores. Not beside terms by offset, which that attention does not have.
  void report(const Pairs& pairs, int64_t count, const ForwardContext& context) const;

 private:
  struct Queries {
    at::Tensor q, weights;  // [T, J, W], [T, J]
  };
  Queries queries(const at::Tensor& q) const;
  at::Tensor loss(const Pairs& pairs, int64_t count) const;

  int64_t heads_, candidates_;
  std::shared_ptr<Linear> query_, key_, weights_;
};

// The k of a mechanism with dsa(k), 0 of another.
int64_t indexed_keys(const LayerSpec& mechanism);

}  // namespace fovea::nn
