#include "fovea/kernels/attention/cpu/screen_backward.h"

#include <algorithm>

namespace fovea::kernels::screened {
namespace {

void add_row(float* to, const float* from, int64_t width) {
  for (int64_t i = 0; i < width; ++i) to[i] += from[i];
}

}  // namespace

// A counting sort: within a key, pairs keep the order of queries.
void Backward::transpose(BackwardPiece& p) const {
  const int64_t queries = p.piece.sequence->q_length, keys = p.piece.sequence->k_length;
  p.begin.assign(static_cast<size_t>(keys) + 2, 0);
  p.long_rows.clear();
  for (int64_t row = 0; row < queries; ++row) {
    const SavedList list = list_of(p, row);
    if (list.keys == nullptr) {
      p.long_rows.push_back(static_cast<int32_t>(row));
      continue;
    }
    for (int64_t i = 0; i < list.count; ++i) ++p.begin[static_cast<size_t>(list.keys[i]) + 2];
  }
  for (size_t key = 2; key < p.begin.size(); ++key) p.begin[key] += p.begin[key - 1];
  Pair* pairs = p.pairs.at_least(p.begin.back());
  for (int64_t row = 0; row < queries; ++row) {
    const SavedList list = list_of(p, row);
    if (list.keys == nullptr) continue;
    const float* gradients = p.score_grads.get() + p.row_begin[static_cast<size_t>(row)];
    const float* weights = has_own_weights(p) ? p.weights.get() + p.row_begin[static_cast<size_t>(row)] : list.values;
    for (int64_t i = 0; i < list.count; ++i) {
      const int64_t to = p.begin[static_cast<size_t>(list.keys[i]) + 1]++;
      pairs[to] = {static_cast<int32_t>(row), gradients[i], weights[i]};
    }
  }
}

int64_t Backward::pairs_of(const BackwardPiece& p, int64_t key) const {
  return p.begin[static_cast<size_t>(key) + 1] - p.begin[static_cast<size_t>(key)];
}

// Copies a key's pairs into the worker's lists.
void Backward::load_pairs(const BackwardPiece& p, int64_t key, BackwardWorker& w) const {
  const int64_t count = pairs_of(p, key);
  w.room(count);
  const Pair* pairs = p.pairs.get() + p.begin[static_cast<size_t>(key)];
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    w.list[at] = pairs[i].query;
    w.gradients[at] = pairs[i].gradient;
    w.weights[at] = pairs[i].weight;
  }
}

void Backward::add_piece(const KeyTask& task, const BackwardPiece& p, BackwardWorker& w) const {
  const ScreenOps& ops = screen_ops();
  const bool first = &p == task.pieces.data();
  // Rows of the first piece are the sums; those of another one are added to them.
  const auto sum = [&](const ListedRows& rows, const float* factors, float* to) {
    ops.weighted_sum(rows, factors, first ? to : w.out);
    if (!first) add_row(to, w.out, width);
  };
  load_pairs(p, task.first, w);
  for (int64_t i = 0; i < task.count; ++i) {
    const int64_t count = pairs_of(p, task.first + i);
    const int32_t* list = w.list.data();
    sum({p.q.get(), width, list, count}, w.gradients.data(), w.grad_keys.data() + i * width);
    sum({p.grad_out.get(), width, list, count}, w.weights.data(), w.grad_values.data() + i * width);
    if (i + 1 < task.count) load_pairs(p, task.first + i + 1, w);
  }
  for (const int32_t row : p.long_rows) {
    const SavedList list = relist(p, row, {task.first, task.first + task.count}, w);
    float *gradients = w.gradients.data(), *weights = w.weights.data();
    weight_gradients(p, row, list, {gradients, weights});
    score_gradients(p.selection, row_weights(p.selection, list.values, list.count, w.derivatives.data()),
                    p.means[static_cast<size_t>(row)], gradients);
    ListedSums to = {w.grad_keys.data(), width, task.first, list.keys, list.count};
    ops.scatter(to, gradients, p.q.row(row, width));
    to.rows = w.grad_values.data();
    ops.scatter(to, weights, p.grad_out.row(row, width));
  }
}

void Backward::key_step(const KeyTask& task, BackwardWorker& w) const {
  w.grad_keys.resize(static_cast<size_t>(kTaskRows * width));
  w.grad_values.resize(static_cast<size_t>(kTaskRows * width));
  for (const BackwardPiece& p : task.pieces) add_piece(task, p, w);
  const auto& [sequence, head] = task.pieces.front().keys->pieces.keys;
  const OneHead<void> grad_k(args.grad_k, problem, head), grad_v(args.grad_v, problem, head);
  for (int64_t i = 0; i < task.count; ++i) {
    const int64_t token = sequence->k_begin + task.first + i;
    write_row(grad_k, token, w.grad_keys.data() + i * width, args.scale);
    write_row(grad_v, token, w.grad_values.data() + i * width, 1);
  }
}

}  // namespace fovea::kernels::screened
