#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/kernels/indexer/chosen_keys.h"

namespace fovea::kernels {

// An attention whose weights an indexer is to learn. Rows are float32, `width` long, a multiple of 16, with zeros
// behind the head's own numbers.
struct IndexTarget {
  const float* q = nullptr;  // [batch, queries, heads, width]
  const float* k = nullptr;  // [batch, key_heads, keys, width]; head h reads h / (heads / key_heads)
  ChosenKeys chosen = {};
  float* weights = nullptr;  // [batch, queries, count]
  int64_t heads = 0, key_heads = 0, width = 0;
  float scale = 1;
};

// Writes the softmax of scale q . k over the chosen keys, averaged over the heads; zero where no key was chosen.
// Results do not depend on threads.
void index_target(const IndexTarget& job, Executor& executor);

}  // namespace fovea::kernels
