#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

// Half-open range of key positions of one sequence.
struct KeyRange {
  int32_t begin = 0, end = 0;
};

// Key ranges of each query of a sequence, ascending and disjoint: ranges[first[i] ... first[i+1]).
struct RangeList {
  std::vector<int32_t> first;  // empty: no ranges at all
  std::vector<KeyRange> ranges;
  std::span<const KeyRange> of(int64_t query) const {
    if (first.empty()) return {};
    const auto i = static_cast<size_t>(query);
    return std::span(ranges).subspan(static_cast<size_t>(first[i]), static_cast<size_t>(first[i + 1] - first[i]));
  }
};

// The pairs of one sequence (and head, for random patterns) as rows of keys.
struct Candidates {
  std::vector<KeyRange> hull;  // of each query: its candidates lie in it; begin == end for none
  RangeList gaps;              // keys inside the hull that are no candidates
  RangeList keep;              // candidates that topk's keep pattern holds back from the selection
};

// Tables of a call, one for each distinct (q_length, k_length), and for each head where the pattern draws numbers.
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

}  // namespace fovea::kernels
