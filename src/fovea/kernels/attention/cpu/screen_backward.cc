#include "fovea/kernels/attention/cpu/screen_backward.h"

#include <algorithm>

namespace fovea::kernels {
namespace screened {

void Backward::prepare(BackwardPiece& p) const {
  const int64_t rows = p.piece.sequence->q_length;
  p.selection = selection_of(problem.spec, args.alpha == nullptr ? nullptr : args.alpha + p.piece.head);
  p.row_begin.assign(1, 0);
  for (int64_t row = 0; row < rows; ++row) {
    const SavedList list = list_of(p, row);
    const int64_t more = (row + 1) % kTaskRows == 0 || row + 1 == rows ? 16 : 0;
    p.row_begin.push_back(p.row_begin.back() + (list.keys != nullptr ? list.count : 0) + more);
  }
  p.score_grads.at_least(p.row_begin.back());
  if (has_own_weights(p)) p.weights.at_least(p.row_begin.back());
  p.means.assign(static_cast<size_t>(rows), 0);
  p.alpha_grads.assign(static_cast<size_t>(rows), 0);
  const int64_t by_head = args.grad_terms.by_head == nullptr ? 0 : problem.offsets.by_head.count;
  p.by_head.assign(static_cast<size_t>((rows + kTaskRows - 1) / kTaskRows * by_head), 0);
}

// Copies one of two arrays, `which`, so that a single piece keeps several threads busy.
void Backward::copy_queries(BackwardPiece& p, int64_t which) const {
  const Sequence& s = *p.piece.sequence;
  if (which == 0) p.q.read({args.q, problem, p.piece.head}, s.q_begin, s.q_length);
  if (which == 1) p.grad_out.read({args.grad_out, problem, p.piece.head}, s.q_begin, s.q_length);
}
void Backward::copy_keys(BackwardKeys& of, int64_t which) const {
  const auto& [sequence, head] = of.pieces.keys;
  if (which == 0) of.k.read({args.k, problem, head}, sequence->k_begin, sequence->k_length);
  if (which == 1) of.v.read({args.v, problem, head}, sequence->k_begin, sequence->k_length);
}

}  // namespace screened

namespace {

using screened::Backward;
using screened::BackwardKeys;
using screened::BackwardPiece;
using screened::BackwardWorker;
using screened::KeyTask;
using screened::kTaskRows;
using screened::RowTask;

// Calls add(first, count) for the blocks of kTaskRows rows.
template <class Add>
void cut(int64_t rows, const Add& add) {
  for (int64_t first = 0; first < rows; first += kTaskRows) add(first, std::min(kTaskRows, rows - first));
}

std::vector<RowTask> row_tasks(std::span<BackwardPiece> pieces) {
  std::vector<RowTask> tasks;
  for (BackwardPiece& p : pieces) {
    cut(p.piece.sequence->q_length, [&](int64_t first, int64_t count) { tasks.push_back({&p, first, count}); });
  }
  return tasks;
}

std::vector<KeyTask> key_tasks(std::span<const BackwardPiece> pieces, std::span<const BackwardKeys> keys) {
  std::vector<KeyTask> tasks;
  for (const BackwardKeys& of : keys) {
    const auto readers = pieces.subspan(of.pieces.begin, of.pieces.end - of.pieces.begin);
    cut(of.pieces.keys.sequence->k_length, [&](int64_t first, int64_t count) {
      tasks.push_back({readers, first, count});
    });
  }
  return tasks;
}

}  // namespace

void screened_backward(const AttentionProblem& problem, const AttentionBackward& args, Executor& executor) {
  const Backward backward = {problem, args, SavedRows(problem, args.saved), padded_width(problem.head_dim)};
  std::vector<BackwardWorker> workers(static_cast<size_t>(executor.num_threads()));
  std::vector<BackwardPiece> pieces;
  std::vector<BackwardKeys> keys;
  std::vector<double> alpha_grads(static_cast<size_t>(problem.num_heads));
  const int64_t offsets = args.grad_terms.by_head == nullptr ? 0 : problem.offsets.by_head.count;
  std::vector<double> by_head(static_cast<size_t>(problem.num_heads * offsets));
  for (const std::vector<Piece>& group : piece_groups(problem)) {
    if (pieces.size() < group.size()) pieces.resize(group.size());
    const std::vector<KeyPieces> shared = key_pieces(problem, group);
    if (keys.size() < shared.size()) keys.resize(shared.size());
    for (size_t k = 0; k < shared.size(); ++k) {
      keys[k].pieces = shared[k];
      for (size_t i = shared[k].begin; i < shared[k].end; ++i) pieces[i].piece = group[i], pieces[i].keys = &keys[k];
    }
    const auto each_piece = [&](auto&& work) {
      executor.run(static_cast<int64_t>(group.size()), [&](int64_t i, int) { work(pieces[static_cast<size_t>(i)]); });
    };
    const auto each_task = [&](const auto& tasks, auto&& work) {
      executor.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int thread) {
        work(tasks[static_cast<size_t>(i)], workers[static_cast<size_t>(thread)]);
      });
    };
    each_piece([&](BackwardPiece& p) { backward.prepare(p); });
    const auto copies = static_cast<int64_t>(2 * group.size());
    executor.run(copies + static_cast<int64_t>(2 * shared.size()), [&](int64_t i, int) {
      if (i < copies) return backward.copy_queries(pieces[static_cast<size_t>(i / 2)], i % 2);
      backward.copy_keys(keys[static_cast<size_t>((i - copies) / 2)], i % 2);
    });
    const std::span<BackwardPiece> now(pieces.data(), group.size());
    each_task(row_tasks(now), [&](const RowTask& task, BackwardWorker& w) { backward.row_step(task, w); });
    each_piece([&](BackwardPiece& p) { backward.transpose(p); });
    each_task(key_tasks(now, {keys.data(), shared.size()}),
              [&](const KeyTask& task, BackwardWorker& w) { backward.key_step(task, w); });
    for (size_t i = 0; i < group.size(); ++i) {
      for (const double gradient : pieces[i].alpha_grads) {
        alpha_grads[static_cast<size_t>(group[i].head)] += gradient;
      }
      const std::vector<float>& blocks = pieces[i].by_head;
      for (size_t at = 0; at < blocks.size(); ++at) {
        by_head[static_cast<size_t>(group[i].head * offsets) + at % static_cast<size_t>(offsets)] += blocks[at];
      }
    }
  }
  for (size_t at = 0; at < by_head.size(); ++at) args.grad_terms.by_head[at] = static_cast<float>(by_head[at]);
  if (args.grad_alpha == nullptr) return;
  for (size_t h = 0; h < alpha_grads.size(); ++h) args.grad_alpha[h] = static_cast<float>(alpha_grads[h]);
}

}  // namespace fovea::kernels
