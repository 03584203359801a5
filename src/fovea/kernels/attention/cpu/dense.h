#pragma once
#include <span>
#include <variant>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/bf16_products.h"
#include "fovea/kernels/attention/cpu/offsets.h"
#include "fovea/kernels/attention/cpu/parts.h"
#include "fovea/kernels/simd/isa.h"

// "cpu-dense": all pairs of a long sequence by blocks of keys, whose scores never leave the nearer caches: softmax with
// a running maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022), and the functions of single scores.
namespace fovea::kernels {

constexpr int64_t kMaxDenseHeadDim = 256;

// Floats that forward saves for a row. Softmax: its maximum, 1 / sum and, if the output is bfloat16, its rounding
// errors [head_dim] in units of float32's last place, int16: the gradient's dO . O wants the output in float32.
inline int64_t dense_stats(const AttentionProblem& problem) {
  if (is_pointwise(problem.spec.transform)) return 0;
  return 2 + (problem.dtype == DType::kBFloat16 ? (problem.head_dim + 1) / 2 : 0);
}

// Whether a query sees all keys but its own: the pattern `others`, which routed heads ask for.
inline bool leaves_out_own(const AttentionProblem& problem) {
  const Pairs& pairs = problem.spec.pairs();
  return pairs.op == Pairs::Op::kLeaf && std::holds_alternative<Others>(pairs.leaf);
}

// Forward: some queries of one sequence under one head, all keys. Backward: all queries, some keys, which heads that
// share them may read one after the other, as links of a chain (parts.h). The chains of some heads follow one another,
// those of the next heads come after them.
struct DenseTask {
  const Sequence* sequence = nullptr;
  int64_t head = 0;
  int64_t begin = 0, end = 0;  // forward: queries; backward: keys
  int64_t part = 0, parts = 1;
  int64_t link = 0, links = 1;
  bool begins_join() const { return parts > 1 && part == 0; }
};

struct DenseCall {
  const AttentionProblem* problem = nullptr;
  std::span<const DenseTask> tasks = {};
  const AttentionForward* forward = nullptr;
  const AttentionBackward* backward = nullptr;
  const Bf16Products* bf16 = nullptr;
  const TiledHeads* tiled = nullptr;
  // Backward: of keys key_sums(task) rows where heads share them; a task's own are those of QuerySums where parts > 1.
  PartialSums sums = {};
  const SharedTerms* shared_terms = nullptr;  // backward
  double* grad_alpha = nullptr;               // backward: of each task, if the gradient of the head's sink is wanted
};

// Rows of a task's dK and dV.
inline int64_t key_sums(const DenseTask& task) { return 2 * (task.end - task.begin); }

// Places of backward's sums over keys, in floats: dQ [q_length, padded], then the wanted sums of terms by offset, the
// product's queries [q_length, padded] and by_query [q_length, count]. The first two have room for whole tiles.
struct QuerySums {
  int64_t queries = 0, by_query = 0, end = 0;
  QuerySums(const AttentionProblem& problem, const OffsetGradients& wanted, int64_t q_length, int64_t padded);
};

template <Isa kIsa>
struct DenseKernel {
  static int64_t lanes();
  static int64_t forward_scratch(const DenseCall& call, const DenseTask& task);
  static int64_t backward_scratch(const DenseCall& call, const DenseTask& task);
  static void forward(const DenseCall& call, int64_t task, float* scratch);
  static void backward(const DenseCall& call, int64_t task, float* scratch);
  // Adds up the sums of `task` (part 0) and of the head's other parts into dQ.
  static void join(const DenseCall& call, int64_t task);
  // If heads share keys: adds up the sums of the chain of `task`, and of the chains of further heads that read the same
  // keys, into dK and dV.
  static void join_heads(const DenseCall& call, int64_t task);
};

extern const Kernel kDenseKernel;

}  // namespace fovea::kernels
