#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/kernels/indexer/chosen_keys.h"

namespace fovea::kernels {

// The distance of an indexer's scores (index_topk.h) of the chosen keys from a target. Rows are float32, `width` long,
// a multiple of 16, with zeros behind the head's own numbers.
struct IndexLoss {
  const float* q = nullptr;        // [batch, queries, heads, width]
  const float* k = nullptr;        // [batch, keys, width]
  const float* weights = nullptr;  // [batch, queries, heads]
  const float* target = nullptr;   // [batch, queries, count], 0 or more; each row is divided by its sum
  ChosenKeys chosen = {};
  int64_t heads = 0, width = 0;
  // Gradients of the sum of the losses, shaped like q, k and weights; null if no gradients are asked for.
  float *grad_q = nullptr, *grad_k = nullptr, *grad_weights = nullptr;
};

struct IndexLossSum {
  double loss = 0;
  int64_t queries = 0;  // that have a key with a target above zero; others have no loss
};

// The sum over queries of the KL divergence from the target to the softmax of the scores of the chosen keys. Memory:
// a number per query, head and chosen key for a block of queries. Results do not depend on threads.
IndexLossSum index_loss(const IndexLoss& job, Executor& executor);

}  // namespace fovea::kernels
