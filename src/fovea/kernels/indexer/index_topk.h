#pragma once
#include <cstdint>
#include <span>

#include "fovea/base/executor.h"
#include "fovea/kernels/attention/attention.h"

// The indexer of DeepSeek sparse attention (DeepSeek-AI 2025, "DeepSeek-V3.2-Exp", equation 1): small heads score all
// keys, and the query then attends to the keys with the best scores.
//     score of query s and key t = sum over heads h of weights[s, h] max(0, q[s, h] . k[t])
namespace fovea::kernels {

struct IndexTopk {
  const void* q = nullptr;          // [T_q, heads, head_dim]
  const void* k = nullptr;          // [T_k, head_dim], shared by the heads
  DType dtype = DType::kFloat32;    // of q and k
  const float* weights = nullptr;   // [T_q, heads]
  int32_t* indices = nullptr;       // [T_q, k_best]
  int64_t heads = 0, head_dim = 0;  // above 0
  int64_t k_best = 0;               // above 0
  bool causal = true;               // query i of a sequence sees its keys up to i + k_length - q_length
  std::span<const Sequence> sequences;
};

// Writes to `indices`, for each query, the k_best keys of its sequence with the greatest scores, ascending, counted
// from the sequence's first key; -1 behind them if the query sees fewer. Among equal scores, the earlier key is taken.
// NaN counts as infinity, so that it is not hidden; -infinity counts as the least finite number. Scores are float32
// sums in one order of operations; the result does not depend on threads or on other sequences. Memory: a copy of k in
// float32 and, per thread, O(k_best) numbers for each query of a block. Queries of no sequence are left as they are.
void index_topk(const IndexTopk& job, Executor& executor);

}  // namespace fovea::kernels
