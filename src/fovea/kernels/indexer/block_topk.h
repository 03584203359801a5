#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/kernels/attention/attention.h"

// The choice of blocks of keys by block attention: MoBA (Lu et al. 2025, arXiv 2502.13189) scores a block by its mean
// key, Quest (Tang et al. 2024, arXiv 2406.10774) by an upper bound of its scores.
//     mean of the keys     g = q . mean of the block's keys
//     bounds of the keys   g = sum over c of max(q_c low_c, q_c high_c), low and high the least and greatest of the
//                          block's keys in dimension c
namespace fovea::kernels {

enum class BlockScore : uint8_t { kMean, kBounds };

struct BlockTopk {
  Rows<const void> q, k;            // [T_q, heads, head_dim], [T_k, key_heads(), head_dim]
  DType dtype = DType::kFloat32;    // of q and k
  int64_t heads = 0, head_dim = 0;  // above 0
  KeySharing keys = {};             // which head of k a head reads
  int64_t block = 1;                // keys of a block, counted from the sequence's first key
  int64_t best = 1;                 // blocks of a query, its own one among them
  BlockScore score = BlockScore::kMean;
  bool causal = true;  // query i of a sequence stands at key i + k_length - q_length and sees no later one
  std::span<const Sequence> sequences;
  // In place of k, if `causal`: for each sequence the summaries of its blocks without the last, if that is not whole;
  // of each block as summarise_keys() leaves them, from key head kept_head on.
  std::span<const std::span<const float* const>> kept = {};
  int64_t kept_head = 0;

  int64_t key_heads() const { return keys.key_head(heads - 1) + 1; }
};

// Some keys that make a block: tokens first, first + 1, ... of k, or places[first], ... if these are given.
struct BlockKeys {
  Rows<const void> k;  // [T_k, key_heads, head_dim]
  DType dtype = DType::kFloat32;
  int64_t key_heads = 0, head_dim = 0;
  BlockScore score = BlockScore::kMean;
  int64_t first = 0, count = 0;
  const int64_t* places = nullptr;
};
// The numbers of a block's summary under one head of k.
constexpr int64_t summary_floats(int64_t head_dim, BlockScore score) {
  constexpr int64_t kLongestVector = 16;
  return (head_dim + kLongestVector - 1) / kLongestVector * kLongestVector * (score == BlockScore::kBounds ? 2 : 1);
}
// Writes the block's summary, [key_heads, summary_floats()].
void summarise_keys(const BlockKeys& keys, float* out);

// Lists of blocks: [T_q, heads, count], ascending, -1 in places left over and for queries of no sequence.
struct BlockLists {
  std::vector<int32_t> blocks;
  int64_t count = 0;
};

// Returns for each query its own block and the best - 1 others with the greatest scores, or earlier ones if `causal`;
// of those equal to the last one all. A query before all keys gets none, as does any without keys. NaN counts as
// infinity, so that it is not hidden. Scores are float32 sums in one order of operations; the result does not depend on
// threads or on other sequences. Memory: one or, of bounds, two rows for each block and key head, the scores of a few
// queries per thread, and the lists.
BlockLists block_topk(const BlockTopk& job, Executor& executor);

}  // namespace fovea::kernels
