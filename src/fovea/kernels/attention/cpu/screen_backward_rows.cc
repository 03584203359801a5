#include "fovea/kernels/attention/cpu/screen_backward.h"

#include <algorithm>

#include "fovea/kernels/attention/dropout.h"

namespace fovea::kernels::screened {
namespace {

// One row of an array of floats.
template <class T>
T* float_row_of(const Rows<T>& rows, const Piece& piece, int64_t query) {
  return rows.data + (piece.sequence->q_begin + query) * rows.token_stride + piece.head * rows.head_stride;
}

}  // namespace

SavedList Backward::relist(const BackwardPiece& p, int64_t row, Span range, BackwardWorker& w) const {
  const Sequence& s = *p.piece.sequence;
  find_keys(problem.spec, row_of(problem, s, row, args.random.pattern(p.piece.head)), w.keys);
  for (std::vector<Span>* spans : {&w.keys.compete, &w.keys.stay}) {
    for (Span& span : *spans) span = {std::max(span.begin, range.begin), std::min(span.end, range.end)};
    std::erase_if(*spans, [](const Span& span) { return span.begin >= span.end; });
  }
  w.room(w.keys.num_compete() + w.keys.num_stay());
  RowList list = {w.list.data(), w.values.data(), list_keys(w.keys.compete, w.list.data(), 0)};
  const float* stats = list_of(p, row).stats;
  RowScores scores = {p.q.row(row, width), p.keys->k.get(), width, args.scale};
  if (problem.offsets.changes_scores()) scores.terms = terms_of(problem, args.terms, p.piece, row, 0);
  recompute_row(p.selection, scores, w.keys, {stats[0], stats[1], stats[2], stats[3]}, list);
  return {stats, list.count, list.keys, list.values};
}

void Backward::weight_gradients(const BackwardPiece& p, int64_t row, const SavedList& list, WeightGradients out) const {
  screen_ops().dots({p.keys->v.get(), width, list.keys, list.count}, p.grad_out.row(row, width), 1, out.gradients);
  if (out.weights != nullptr) saved_to_weights(p.selection, list.values, list.count, out.weights);
  if (const OffsetRange& range = problem.offsets.sums; range.count > 0 && args.grad_terms.sums.data != nullptr) {
    const float* of_sums = float_row_of(args.grad_terms.sums, p.piece, row);
    for (int64_t i = 0; i < list.count; ++i) out.gradients[i] += of_sums[range.index(list.keys[i] - position(p, row))];
  }
  if (problem.dropout <= 0) return;
  const int64_t token = p.piece.sequence->q_begin + row;
  const uint32_t key = dropout_row_key(args.random.dropout_key, args.random.first_head + p.piece.head, token);
  const uint32_t threshold = dropout_threshold(problem.dropout);
  const float scale = dropout_scale(problem.dropout);
  for (int64_t i = 0; i < list.count; ++i) {
    const bool keeps = dropout_keeps(key, static_cast<uint32_t>(list.keys[i]), threshold);
    out.gradients[i] = keeps ? out.gradients[i] * scale : 0;
    if (out.weights != nullptr) out.weights[i] = keeps ? out.weights[i] * scale : 0;
  }
}

// Prefetches the keys and values of a row that is needed soon.
void Backward::fetch_pairs(const BackwardPiece& p, int64_t row) const {
  const SavedList list = list_of(p, row);
  if (list.keys == nullptr || is_near(p.piece.sequence->k_length, width)) return;
  screen_ops().fetch({p.keys->v.get(), width, list.keys, list.count});
  screen_ops().fetch({p.keys->k.get(), width, list.keys, list.count});
}

void Backward::row_step(const RowTask& task, BackwardWorker& w) const {
  BackwardPiece& p = *task.piece;
  const Selection& selection = p.selection;
  const OneHead<void> grad_q(args.grad_q, problem, p.piece.head);
  for (int64_t row = task.first; row < task.first + task.count; ++row) {
    if (row + 1 < task.first + task.count) fetch_pairs(p, row + 1);
    const auto at = static_cast<size_t>(row);
    SavedList list = list_of(p, row);
    WeightGradients out;
    if (list.keys != nullptr) {
      out.gradients = p.score_grads.get() + p.row_begin[at];
      if (has_own_weights(p)) out.weights = p.weights.get() + p.row_begin[at];
      w.room(list.count);
    } else {
      list = relist(p, row, {0, p.piece.sequence->k_length}, w);
      out.gradients = w.gradients.data();
    }
    weight_gradients(p, row, list, out);
    const RowWeights weights = row_weights(selection, list.values, list.count, w.derivatives.data());
    p.means[at] = gradient_mean(weights, out.gradients);
    if (selection.learned) p.alpha_grads[at] = alpha_gradient(selection, weights, p.means[at], out.gradients);
    score_gradients(selection, weights, p.means[at], out.gradients);
    if (problem.offsets.changes_scores()) term_gradients(p, row, list, out.gradients);
    screen_ops().weighted_sum({p.keys->k.get(), width, list.keys, list.count}, out.gradients, w.out);
    write_row(grad_q, p.piece.sequence->q_begin + row, w.out, args.scale);
  }
}

void Backward::term_gradients(BackwardPiece& p, int64_t row, const SavedList& list, const float* gradients) const {
  const OffsetRanges& has = problem.offsets;
  const int64_t at = position(p, row);
  if (!p.by_head.empty()) {
    float* to = p.by_head.data() + row / kTaskRows * has.by_head.count;
    for (int64_t i = 0; i < list.count; ++i) to[has.by_head.index(list.keys[i] - at)] += gradients[i];
  }
  if (has.by_query.count == 0 || args.grad_terms.by_query.data == nullptr) return;
  float* to = float_row_of(args.grad_terms.by_query, p.piece, row);
  std::fill_n(to, has.by_query.count, 0.0F);
  for (int64_t i = 0; i < list.count; ++i) to[has.by_query.index(list.keys[i] - at)] += gradients[i];
}

}  // namespace fovea::kernels::screened
