#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/parts.h"
#include "fovea/kernels/simd/isa.h"

// "cpu-blocks": softmax over blocks of keys that lists name for each query. A task goes through the blocks of keys in
// order and brings together the queries whose lists have the block, so that scores and sums are products of whole
// tiles, whatever neighbouring queries have chosen. A query's maximum, sum and output run along, as in "cpu-dense".
namespace fovea::kernels {

constexpr int64_t kMaxBlocksHeadDim = 256;
constexpr int64_t kLeastKeysOfBlock = 16;  // of fewer, a block's products would be too narrow for tiles

// Floats that forward saves for a row: its maximum and 1 / sum; and, if the output is bfloat16, the output [head_dim]
// in float32, as the gradient's dO . O wants it.
inline int64_t blocks_stats(const AttentionProblem& problem) {
  return 2 + (problem.dtype == DType::kBFloat16 ? problem.head_dim : 0);
}

// Forward: queries begin ... end - 1 of a sequence under one head. Backward: blocks of keys begin ... end - 1 of a
// sequence under the `heads` heads from `head` on, which read the same head of the keys; before and after that, all
// queries of a sequence under one of these heads.
struct BlocksTask {
  const Sequence* sequence = nullptr;
  int64_t head = 0, heads = 1;
  int64_t begin = 0, end = 0;
  // Backward, of each of the task's heads: what it reads of a query, [heads][q_length][floats_of_row()]; the part's
  // share of dQ, [heads][q_length][padded head_dim], and of the gradients of terms, [heads][BlocksTermSums::end].
  float *rows = nullptr, *sums = nullptr, *terms = nullptr;
};

// The gradients of terms by offset that a part sums for one head, as far as they are wanted: of the term by query
// [q_length][count], and then of that by head, for the offsets that the sequence meets.
struct BlocksTermSums {
  BlocksTermSums(const AttentionProblem& problem, const OffsetGradients& wanted, const Sequence& sequence);
  OffsetRange by_head_range;
  int64_t by_head = 0, end = 0;  // floats before it, and in all
};

// A query, behind it the gradient of its output, then its maximum, 1 / sum and dO . O: side by side, as they are
// fetched from far away together.
constexpr int64_t floats_of_row(int64_t padded) { return 2 * padded + 16; }

// The queries of a sequence whose lists have block 0, 1, ...: those of block b are queries[first[b]] ...
// queries[first[b + 1] - 1], ascending.
struct BlockQueries {
  const int32_t *first = nullptr, *queries = nullptr;
  int64_t count(int64_t block) const { return first[block + 1] - first[block]; }
  const int32_t* of(int64_t block) const { return queries + first[block]; }
};

// The sums of one part for a head.
struct BlocksShare {
  float *sums = nullptr, *terms = nullptr;
};

struct BlocksCall {
  const AttentionProblem* problem = nullptr;
  const AttentionForward* forward = nullptr;
  const AttentionBackward* backward = nullptr;
};

template <Isa kIsa>
struct BlocksKernel {
  static int64_t lanes();
  static int64_t forward_scratch(const BlocksCall& call, const BlocksTask& task);
  static int64_t backward_scratch(const BlocksCall& call);
  static void forward(const BlocksCall& call, const BlocksTask& task, const BlockQueries& chosen, float* scratch);
  // Fills in `rows` of a head; returns the gradient of its sink, if it has one. scratch: that of backward.
  static double begin_backward(const BlocksCall& call, const BlocksTask& task, float* scratch);
  // `chosen` holds the queries of each head of the task.
  static void backward(const BlocksCall& call, const BlocksTask& task, const BlockQueries* chosen, float* scratch);
  // Adds up the shares of a head's dQ and of its term by query, and writes them.
  static void join(const BlocksCall& call, const BlocksTask& task, std::span<const BlocksShare> shares);
};

extern const Kernel kBlocksKernel;

}  // namespace fovea::kernels
