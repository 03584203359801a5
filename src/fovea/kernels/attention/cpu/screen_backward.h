#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_select.h"

// screened_backward() takes three steps for each group of pieces. Each task writes only to its own rows, so sums have
// one order:
//   rows       gradients of scores, and of queries
//   transpose  the lists by key
//   keys       gradients of keys and values, each a sum over its own list in the order of queries
namespace fovea::kernels::screened {

constexpr int64_t kTaskRows = 64;

// The contribution of a query to a key: its part of the gradient of scores, and its weight.
struct Pair {
  int32_t query;
  float gradient, weight;
};

// The keys and values of a sequence under one of their heads, and the pieces that read them.
struct BackwardKeys {
  KeyPieces pieces;
  HeadCopy k, v;
};

struct BackwardPiece {
  Piece piece;
  const BackwardKeys* keys = nullptr;
  Selection selection;
  HeadCopy q, grad_out;
  // For the listed pairs: where each row's pairs begin (a task's pairs are followed by room for 16 more), and the
  // results of the backward pass for them. Rows whose lists found no room have no pairs here.
  std::vector<int64_t> row_begin;  // [queries + 1]
  GrowingArray<float> score_grads;
  GrowingArray<float> weights;  // where has_own_weights()
  // The rows whose lists found no room, and for each query its gradient_mean().
  std::vector<int32_t> long_rows;
  std::vector<double> means, alpha_grads;  // [queries]
  // Gradients of the head's terms by offset, for each block of kTaskRows queries; empty if they are not wanted.
  std::vector<float> by_head;
  // The pairs sorted by key: where each key's pairs begin, and the pairs.
  std::vector<int64_t> begin;  // [keys + 1]
  GrowingArray<Pair> pairs;
};

struct BackwardWorker {
  RowKeys keys;
  std::vector<int32_t> list;
  std::vector<float> values, gradients, weights, derivatives;
  std::vector<float> grad_keys, grad_values;  // [kTaskRows, width]
  float out[kMaxScreenHeadDim];
  // Makes room for lists of `count` entries and 32 more.
  void room(int64_t count) {
    const auto size = static_cast<size_t>(count) + 32;
    if (list.size() >= size) return;
    list.resize(size);
    for (std::vector<float>* buffer : {&values, &gradients, &weights, &derivatives}) buffer->resize(size);
  }
};

// A row as forward saved it; keys and values are null if its list found no room.
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

// The inputs that all steps read, and the steps.
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
  // Adds the part of one piece to the gradients of the task's keys, which are zero before the first piece.
  void add_piece(const KeyTask& task, const BackwardPiece& p, BackwardWorker& w) const;
  // Whether the values are summed with weights other than the saved ones.
  bool has_own_weights(const BackwardPiece& p) const { return p.selection.saves_scores() || problem.dropout > 0; }
  // Computes gradients of a row's weights and, unless null, its weights after dropout.
  void weight_gradients(const BackwardPiece& p, int64_t row, const SavedList& list, WeightGradients out) const;
  // For a row whose list found no room, lists its pairs with keys in `range` again, in w.
  SavedList relist(const BackwardPiece& p, int64_t row, Span range, BackwardWorker& w) const;
  int64_t position(const BackwardPiece& p, int64_t row) const {
    return row + p.piece.sequence->k_length - p.piece.sequence->q_length;
  }
  // Adds a row's gradients of scores to the gradients of its terms by offset.
  void term_gradients(BackwardPiece& p, int64_t row, const SavedList& list, const float* gradients) const;
};

}  // namespace fovea::kernels::screened
