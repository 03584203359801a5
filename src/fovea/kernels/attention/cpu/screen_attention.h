#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_select.h"

// Attention with few nonzero weights: selected by screening, kept as lists, and differentiated on the lists alone.
namespace fovea::kernels {

// The values that backward needs, in the rows of a call's buffers that belong to a sequence:
//     stats   [heads, queries, kRowStats]: RowStats;          then the values of the listed keys, list after list
//     kept    [heads, queries, 2]: count, begin of the list;  then the listed keys, list after list
// The lists share room for `capacity` entries per row and lie close together, so that unused pages stay untouched. If
// the lists of a block of queries find no room (many ties at the threshold, wide supports), begin is -1 for all of
// them, and backward computes them again.
struct ListLayout {
  int64_t capacity = 0;
  SavedPerRow per_row() const;
};
ListLayout list_layout(const AttentionProblem& problem);

// Indices into a call's buffers.
struct SavedPlace {
  int64_t stats = 0, entry = 0;  // of the query; entry: its count and begin
  int64_t values = 0, keys = 0;  // where the lists of its sequence begin
};
class SavedRows {
 public:
  // buffer: the floats and ints per row of the call's buffers, which may be more than this kernel needs.
  SavedRows(const AttentionProblem& problem, const SavedPerRow& buffer)
      : capacity_(list_layout(problem).capacity), buffer_(buffer), num_heads_(problem.num_heads) {}
  SavedPlace of(const Piece& piece, int64_t query) const {
    const Sequence& s = *piece.sequence;
    const int64_t floats = s.q_begin * num_heads_ * buffer_.floats, ints = s.q_begin * num_heads_ * buffer_.ints;
    const int64_t rows = num_heads_ * s.q_length, row = piece.head * s.q_length + query;
    return {floats + row * kRowStats, ints + row * 2, floats + rows * kRowStats, ints + rows * 2};
  }
  // The most list entries that `rows` rows may take: twice their share, so that a few rows cannot take the room of all.
  int64_t most(int64_t rows) const { return 2 * rows * capacity_; }
  // The number of list entries of a sequence, limited to the range of int32.
  int64_t room(const Sequence& s) const {
    return std::min<int64_t>(num_heads_ * s.q_length * capacity_, std::numeric_limits<int32_t>::max());
  }

 private:
  int64_t capacity_;
  SavedPerRow buffer_;
  int64_t num_heads_;
};

void screened_forward(const AttentionProblem& problem, const AttentionForward& args, Executor& executor);
void screened_backward(const AttentionProblem& problem, const AttentionBackward& args, Executor& executor);

extern const Kernel kTopkKernel, kEntmaxKernel;

}  // namespace fovea::kernels
