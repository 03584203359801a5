#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/kernels/attention/attention.h"

// Pairs lowered for the CPU kernels. Queries are grouped so that a group shares most of its keys; a group's keys,
// brought together, are its columns, and each of its queries sees a few ranges of columns. Cost follows the pairs:
// dilated patterns group queries of one residue, random ones stand alone.
namespace fovea::kernels {

// Half-open range of columns.
struct ColumnRange {
  int32_t begin = 0, end = 0;
};

// Ranges of each row, ascending and disjoint: ranges[first[i] ... first[i+1]).
struct RangeList {
  std::vector<int32_t> first;  // empty: no ranges at all
  std::vector<ColumnRange> ranges;
  std::span<const ColumnRange> of(int64_t row) const {
    if (first.empty()) return {};
    const auto i = static_cast<size_t>(row);
    return std::span(ranges).subspan(static_cast<size_t>(first[i]), static_cast<size_t>(first[i + 1] - first[i]));
  }
};

// Queries first, first + step, ... of a sequence; column c is key position begin + c * step, or list[c].
struct RowGroup {
  int32_t first_query = 0, query_step = 1, queries = 0;
  int32_t columns = 0, key_begin = 0, key_step = 1;
  int32_t list_at = -1;  // >= 0: column c is key lists[list_at + c]
  int32_t row = 0;       // index of its first query in hull, gaps and keep
};

// The pairs of one sequence (and head, for random patterns).
struct Candidates {
  std::vector<RowGroup> groups;  // every query is in one; an empty one where there are no queries
  std::vector<int32_t> lists;
  std::vector<ColumnRange> hull;  // of each row: its candidates lie in it; begin == end for none
  RangeList gaps;                 // columns inside the hull that are no candidates
  RangeList keep;                 // candidates that topk's keep pattern holds back from the selection
  int64_t pairs = 0;              // columns inside the hulls
  int64_t bytes() const;
  const int32_t* list(const RowGroup& group) const {
    return group.list_at < 0 ? nullptr : lists.data() + group.list_at;
  }
};

// Tables of a call, one for each distinct (q_length, k_length), and for each head where the pattern draws numbers.
// Tables of patterns are kept for later calls, up to a bound.
class CandidateTables {
 public:
  CandidateTables(const AttentionProblem& problem, const RandomStream& random);
  const Candidates& of(int64_t sequence, int64_t head) const {
    return *tables_[static_cast<size_t>(sequence * heads_ + (heads_ > 1 ? head : 0))];
  }

 private:
  int64_t heads_;  // tables a sequence: 1 or num_heads
  std::vector<std::shared_ptr<const Candidates>> tables_;
};

// The rows of one sequence, lowered. `stream` is Row::stream.
Candidates lower(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream);

}  // namespace fovea::kernels
