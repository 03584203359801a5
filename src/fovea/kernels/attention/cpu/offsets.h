#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/attention.h"

// Gradients of terms by offset that all sequences and queries of a head add to: each task sums its own, and these are
// added up in the order of the tasks.
namespace fovea::kernels {

// The part of `range` that offsets first ... last meet, at least one offset of it.
inline OffsetRange met_by(const OffsetRange& range, int64_t first, int64_t last) {
  const int64_t begin = range.index(first), end = range.index(last) + 1;
  return {range.first + begin, end - begin};
}
// The part of `range` that any pair of the sequence meets.
inline OffsetRange met_by(const OffsetRange& range, const AttentionProblem& problem, const Sequence& sequence) {
  if (range.count == 0 || sequence.q_length == 0 || sequence.k_length == 0) return {};
  const int64_t last = problem.kind == AttentionKind::kCausal ? 0 : sequence.q_length - 1;
  return met_by(range, 1 - sequence.k_length, last);
}

// The sums of one task; null: not wanted. The ranges hold the offsets that its sequence meets.
struct SharedTermSums {
  float* by_head = nullptr;  // [count]
  float* rows = nullptr;     // [count][padded head_dim]
  OffsetRange by_head_range, rows_range;
};

// The number of the product's offsets, of `count` from `first` on, with a place in a task's sums. A block of scores
// also meets offsets behind the causal limit, whose gradients are zero, and the next task's sums lie there.
inline int64_t summed_offsets(const SharedTermSums& sums, int64_t first, int64_t count) {
  return std::min(count, sums.rows_range.first + sums.rows_range.count - first);
}

// The sums of a call's tasks.
class SharedTerms {
 public:
  struct Task {
    const Sequence* sequence;
    int64_t head;
  };
  // padded: head_dim in whole vectors.
  SharedTerms(const AttentionProblem& problem, const OffsetGradients& to, std::vector<Task> tasks, int64_t padded);
  SharedTermSums of(int64_t task) const;
  // Writes the gradients.
  void add_up(Executor& executor) const;

 private:
  void add_up_head(int64_t head) const;

  const AttentionProblem& problem_;
  const OffsetGradients& to_;
  std::vector<Task> tasks_;
  int64_t padded_;
  std::vector<int64_t> begin_;  // of each task
  Aligned<float> sums_;
};

}  // namespace fovea::kernels
