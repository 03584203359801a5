#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_select.h"

// The steps of screened_backward().
// Three steps for a group of pieces, each task writing what it alone owns, so that sums have one order:
//   rows       gradients of scores, and of queries
//   transpose  the lists by key
//   keys       gradients of keys and values, each a sum over its own list in the order of queries
namespace fovea::kernels::screened {

constexpr int64_t kTaskRows = 64;

// What a query gives to a key: its share of the gradient of scores, its weight.
struct Pair {
  int32_t query;
  float gradient, weight;
};

// The keys and values of a sequence under one of their heads, and the pieces that read them.
struct BackwardKeys {
  KeyPieces pieces;
  HeadRows k, v;
};

struct BackwardPiece {
  Piece piece;
  const BackwardKeys* keys = nullptr;
  Selection selection;
  HeadRows q, grad_out;
  // Of listed pairs: where a row's begin, 16 more behind those of a task, and what backward makes of them. Rows whose
  // lists found no room have none.
  std::vector<int64_t> row_begin;  // [queries + 1]
  Grown<float> score_grads;
  Grown<float> weights;  // where has_own_weights()
  // Rows whose lists found no room, and their gradient_mean().
  std::vector<int32_t> long_rows;
  std::vector<double> means, alpha_grads;  // [queries]
  // Gradients of the head's terms by offset, of each block of kTaskRows queries; none where they are not wanted.
  std::vector<float> by_head;
  // By key: where its pairs begin, and the pairs.
  std::vector<int64_t> begin;  // [keys + 1]
  Grown<Pair> pairs;
};

struct BackwardWorker {
  RowKeys keys;
  std::vector<int32_t> list;
  std::vector<float> values, gradients, weights, derivatives;
  std::vector<float> grad_keys, grad_values;  // [kTaskRows, width]
  float out[kMaxScreenHeadDim];
  // Lists of `count`, and room for 32 more.
  void room(int64_t count) {
    const auto size = static_cast<size_t>(count) + 32;
    if (list.size() >= size) return;
    list.resize(size);
    for (std::vector<float>* buffer : {&values, &gradients, &weights, &derivatives}) buffer->resize(size);
  }
};

// What forward left of a row; keys and values are null where it found no room for them.
struct SavedList {
  const float* stats = nullptr;  // [kRowStats]
  int64_t count = 0;
  const int32_t* keys = nullptr;
  const float* values = nullptr;
};

struct WeightGradients {
  float* gradients = nullptr;  // [count], room for 16 more
  float* weights = nullptr;    // [count]; null where they are what forward saved, or not wanted
};

// Queries first ... first + count - 1 of a piece.
struct RowTask {
  BackwardPiece* piece = nullptr;
  int64_t first = 0, count = 0;
};
// Keys first ... first + count - 1, and the pieces that read them.
struct KeyTask {
  std::span<const BackwardPiece> pieces;
  int64_t first = 0, count = 0;
};

// What all steps read.
struct Backward {
  const AttentionProblem& problem;
  const AttentionBackward& args;
  SavedRows saved;
  int64_t width;

  SavedList list_of(const BackwardPiece& p, int64_t row) const {
    const SavedPlace at = saved.of(p.piece, row);
    const int32_t* entry = args.kept + at.entry;
    if (entry[1] < 0) return {args.stats + at.stats, entry[0], nullptr, nullptr};
    return {args.stats + at.stats, entry[0], args.kept + at.keys + entry[1], args.stats + at.values + entry[1]};
  }
  void prepare(BackwardPiece& p) const;
  void copy_queries(BackwardPiece& p, int64_t which) const;
  void copy_keys(BackwardKeys& of, int64_t which) const;
  int64_t pairs_of(const BackwardPiece& p, int64_t key) const;
  void load_pairs(const BackwardPiece& p, int64_t key, BackwardWorker& w) const;
  void fetch_pairs(const BackwardPiece& p, int64_t row) const;
  void row_step(const RowTask& task, BackwardWorker& w) const;
  void transpose(BackwardPiece& p) const;
  void key_step(const KeyTask& task, BackwardWorker& w) const;
  // Adds what one piece gives to the gradients of the task's keys, which are zero before the first.
  void add_piece(const KeyTask& task, const BackwardPiece& p, BackwardWorker& w) const;
  // Whether the weights that values are summed with are others than what forward saved.
  bool has_own_weights(const BackwardPiece& p) const { return p.selection.saves_scores() || problem.dropout > 0; }
  // Gradients of a row's weights and, unless null, its weights after dropout.
  void weight_gradients(const BackwardPiece& p, int64_t row, const SavedList& list, WeightGradients out) const;
  // Lists again, in w, the pairs with keys in `range` of a row whose list found no room.
  SavedList relist(const BackwardPiece& p, int64_t row, Span range, BackwardWorker& w) const;
  int64_t position(const BackwardPiece& p, int64_t row) const {
    return row + p.piece.sequence->k_length - p.piece.sequence->q_length;
  }
  // What a row's gradients of scores give to its terms by offset.
  void term_gradients(BackwardPiece& p, int64_t row, const SavedList& list, const float* gradients) const;
};

}  // namespace fovea::kernels::screened
