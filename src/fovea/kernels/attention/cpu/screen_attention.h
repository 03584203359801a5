#pragma once
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"

// Attention whose weights are few: selected by screening, kept as lists, and differentiated on the lists alone.
namespace fovea::kernels {

// A row of `kept` is its count and, when they fit, its keys; one of `stats` its RowStats and the values of those keys.
// A longer list (ties at the threshold, a wide support) is computed again in backward.
struct ListLayout {
  int64_t capacity = 0;
  SavedPerRow per_row() const;
};
ListLayout list_layout(const AttentionProblem& problem);

// The rows of a call's buffers, which are `room` wide; by query of the piece's sequence.
struct SavedRows {
  int64_t capacity = 0;
  SavedPerRow own, room;
  int64_t num_heads = 1;

  SavedRows(const AttentionProblem& problem, const SavedPerRow& buffer_rows)
      : capacity(list_layout(problem).capacity),
        own(ListLayout{capacity}.per_row()),
        room(buffer_rows),
        num_heads(problem.num_heads) {}
  int64_t float_at(const Piece& piece, int64_t query) const { return at(piece, query, room.floats, own.floats); }
  int64_t int_at(const Piece& piece, int64_t query) const { return at(piece, query, room.ints, own.ints); }

 private:
  int64_t at(const Piece& piece, int64_t query, int64_t wide, int64_t narrow) const {
    return piece.sequence->q_begin * num_heads * wide + (query * num_heads + piece.head) * narrow;
  }
};

void screened_forward(const AttentionProblem& problem, const AttentionForward& args, Executor& executor);
void screened_backward(const AttentionProblem& problem, const AttentionBackward& args, Executor& executor);

}  // namespace fovea::kernels
