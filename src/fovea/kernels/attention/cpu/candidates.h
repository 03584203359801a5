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
  // Appends the ranges of the next row.
  void add(std::span<const ColumnRange> more) {
    if (first.empty()) first.push_back(0);
    ranges.insert(ranges.end(), more.begin(), more.end());
    first.push_back(static_cast<int32_t>(ranges.size()));
  }
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
  int64_t list_at = -1;  // >= 0: column c is key lists[list_at + c]; but see `given`
  int32_t row = 0;       // index of its first query in hull, gaps and keep
  bool given = false;    // of one query, whose list came with the call and lies at Candidates::given[list_at]
};

// The pairs of one sequence (and head, for random patterns).
struct Candidates {
  std::vector<RowGroup> groups;  // every query is in one; an empty one where there are no queries
  std::vector<int32_t> lists;
  std::vector<ColumnRange> hull;  // of each row: its candidates lie in it; begin == end for none
  RangeList gaps;                 // columns inside the hull that are no candidates
  RangeList keep;                 // candidates that topk's keep pattern holds back from the selection
  int64_t pairs = 0;              // columns inside the hulls
  // Lists that came with the call: blocks of `block` keys; the causal limit or the sequence's end may cut a list's last
  // one. Columns of a group that is `given` are the keys of its blocks.
  const int32_t* given = nullptr;
  int64_t block = 0;  // 0: none came with the call
  int64_t bytes() const;
  const int32_t* list(const RowGroup& group) const {
    return group.list_at < 0 ? nullptr : lists.data() + group.list_at;
  }
  // The keys of a group with columns lie in it.
  Span keys_of(const RowGroup& group) const;
};

// The tables of a call, one for each distinct (q_length, k_length), and for each head if the pattern draws numbers.
// Tables of patterns are kept for later calls, up to a bound. If pairs come with the call, each sequence has a table,
// and so has each of its heads whose lists differ; `given` is read as long as the tables live.
class CandidateTables {
 public:
  CandidateTables(const AttentionProblem& problem, const RandomStream& random, const GivenLists& given);
  const Candidates& of(int64_t sequence, int64_t head) const {
    return *tables_[static_cast<size_t>(sequence * heads_ + (heads_ > 1 ? head : 0))];
  }

 private:
  void lower_given(const AttentionProblem& problem, const RandomStream& random, const GivenLists& given);

  int64_t heads_ = 1;  // tables per sequence: 1 or num_heads
  std::vector<std::shared_ptr<const Candidates>> tables_;
};

// The rows of one sequence, lowered. `stream` is Row::stream.
Candidates lower(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream);

// Keys of a group's queries, sorted, disjoint and not touching; and the keys that topk's keep pattern holds back, empty
// if the spec keeps none.
struct GroupRows {
  std::vector<std::vector<Span>> keys, kept;
};
// Adds the group with its columns, hulls, gaps and keep; `group` has its queries.
void add_group(const GroupRows& rows, RowGroup group, Candidates& table);

// Lowers pairs that come with the call: the lists of the sequence's queries lie at `lists`, `stride` apart.
struct QueryLists {
  const int32_t* lists = nullptr;
  int64_t stride = 0;
};
Candidates lower_lists(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream,
                       const QueryLists& given);

}  // namespace fovea::kernels
