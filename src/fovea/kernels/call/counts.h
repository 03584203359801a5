#pragma once
#include <span>

#include "fovea/base/executor.h"
#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

// The queries whose candidates are counted: those of `sequences`, of a layer whose groups have their numbers of heads.
struct CountedQueries {
  const LayerSpec& heads;
  AttentionKind kind = AttentionKind::kSelf;
  std::span<const Sequence> sequences;
  RandomStream random = {};
};

// Writes to counts [T_q, H] how many candidates each query has under each head whose queries are scaled
// (spec/query_scale.h), by pattern, causal limit and lengths. Other heads and tokens keep what is there. The memory is
// that of the numbers alone.
void count_candidates(const CountedQueries& queries, float* counts, Executor& executor);

}  // namespace fovea::kernels
