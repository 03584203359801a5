#include "fovea/kernels/call/counts.h"

#include <algorithm>
#include <vector>

namespace fovea::kernels {
namespace {

constexpr int64_t kRowsOfPiece = 256;

struct QueryRange {
  Sequence sequence;
  int64_t first = 0, end = 0;  // queries of the sequence
};

std::vector<QueryRange> pieces_of(std::span<const Sequence> sequences) {
  std::vector<QueryRange> pieces;
  for (const Sequence& sequence : sequences) {
    for (int64_t first = 0; first < sequence.q_length; first += kRowsOfPiece)
      pieces.push_back({sequence, first, std::min(first + kRowsOfPiece, sequence.q_length)});
  }
  return pieces;
}

}  // namespace

void count_candidates(const CountedQueries& queries, float* counts, Executor& executor) {
  AttentionProblem problem;
  problem.kind = queries.kind;
  int64_t all_heads = 0;
  for (const HeadGroup& group : queries.heads) all_heads += group.num_heads;
  const std::vector<QueryRange> pieces = pieces_of(queries.sequences);
  executor.run(static_cast<int64_t>(pieces.size()), [&](int64_t index, int) {
    const auto& [sequence, first, end] = pieces[static_cast<size_t>(index)];
    for (int64_t i = first; i < end; ++i) {
      float* to = counts + (sequence.q_begin + i) * all_heads;
      int64_t head = 0;
      for (const auto& [num_heads, spec] : queries.heads) {
        const bool draws = spec.scale && uses_random(spec.pairs());
        float count = 0;
        for (const int64_t last = head + num_heads, begin = head; head < last; ++head) {
          if (!spec.scale) continue;
          if (draws || head == begin)
            count = static_cast<float>(
                candidate_count(spec.pairs(), row_of(problem, sequence, i, queries.random.pattern(head))));
          to[head] = count;
        }
      }
    }
  });
}

}  // namespace fovea::kernels
