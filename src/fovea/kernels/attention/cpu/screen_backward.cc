#include <algorithm>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_select.h"
#include "fovea/kernels/attention/dropout.h"

// Three steps for a group of pieces, each task writing what it alone owns, so that sums have one order:
//   rows       gradients of scores, and of queries
//   transpose  the lists by key
//   keys       gradients of keys and values, each a sum over its own list in the order of queries
namespace fovea::kernels {
namespace {

constexpr int64_t kTaskRows = 64;

struct BackwardPiece {
  Piece piece;
  Selection selection;
  HeadRows q, k, v, grad_out;
  // Of listed pairs, [queries, capacity].
  Aligned<float> score_grads, weights;
  // Rows whose lists were too long, and their gradient_mean().
  std::vector<int32_t> long_rows;
  std::vector<double> means, alpha_grads;  // [queries]
  // By key: where its pairs begin, and the pairs.
  std::vector<int64_t> begin;  // [keys + 1]
  Aligned<int32_t> queries;
  Aligned<float> by_key_grads, by_key_weights;
  int64_t rows_size = 0, pairs_size = 0;
};

struct BackwardWorker {
  RowKeys keys;
  std::vector<int32_t> list;
  std::vector<float> values, gradients, weights, scratch;
  std::vector<float> grad_keys, grad_values;  // [kTaskRows, width]
  float out[256];
};

struct BackwardTask {
  BackwardPiece* piece = nullptr;
  int64_t first = 0, count = 0;
};

// What all steps read.
struct Backward {
  const AttentionProblem& problem;
  const AttentionBackward& args;
  ListLayout layout;
  int64_t width;

  const int32_t* kept(const BackwardPiece& p, int64_t row) const {
    return args.kept + saved_row(p, row) * layout.per_row().ints;
  }
  const float* stats(const BackwardPiece& p, int64_t row) const {
    return args.stats + saved_row(p, row) * layout.per_row().floats;
  }
  int64_t saved_row(const BackwardPiece& p, int64_t row) const {
    return (p.piece.sequence->q_begin + row) * problem.num_heads + p.piece.head;
  }

  void copy(BackwardPiece& p) const;
  void row_step(const BackwardTask& task, BackwardWorker& w) const;
  void transpose(BackwardPiece& p) const;
  void key_step(const BackwardTask& task, BackwardWorker& w) const;
  // Of a row's list of `count` in w.list and w.values: gradients of weights, and weights after dropout.
  void weight_gradients(const BackwardPiece& p, int64_t row, int64_t count, BackwardWorker& w) const;
  // Lists again the pairs of a long row with keys in [begin, end); returns their number.
  int64_t relist(const BackwardPiece& p, int64_t row, Span range, BackwardWorker& w) const;
};

void Backward::copy(BackwardPiece& p) const {
  const Sequence& s = *p.piece.sequence;
  const int64_t head = p.piece.head, dim = problem.head_dim;
  p.selection = selection_of(problem.spec, args.alpha == nullptr ? nullptr : args.alpha + head);
  p.q.copy(args.q, problem.dtype, head, s.q_begin, s.q_length, dim);
  p.k.copy(args.k, problem.dtype, head, s.k_begin, s.k_length, dim);
  p.v.copy(args.v, problem.dtype, head, s.k_begin, s.k_length, dim);
  p.grad_out.copy(args.grad_out, problem.dtype, head, s.q_begin, s.q_length, dim);
  if (p.rows_size < s.q_length) {
    p.rows_size = s.q_length;
    p.score_grads = aligned<float>(s.q_length * layout.capacity);
    p.weights = aligned<float>(s.q_length * layout.capacity);
  }
  p.means.assign(static_cast<size_t>(s.q_length), 0);
  p.alpha_grads.assign(static_cast<size_t>(s.q_length), 0);
}

int64_t Backward::relist(const BackwardPiece& p, int64_t row, Span range, BackwardWorker& w) const {
  const Sequence& s = *p.piece.sequence;
  Row where;
  where.query = row + (problem.kind != AttentionKind::kCross ? s.k_length - s.q_length : 0);
  where.keys = s.k_length;
  where.causal = problem.kind == AttentionKind::kCausal;
  where.stream = pattern_stream(args.random.seed, args.random.layer, args.random.first_head + p.piece.head);
  find_keys(problem.spec, where, w.keys);
  for (std::vector<Span>* spans : {&w.keys.compete, &w.keys.stay}) {
    for (Span& span : *spans) span = {std::max(span.begin, range.begin), std::min(span.end, range.end)};
    std::erase_if(*spans, [](const Span& span) { return span.begin >= span.end; });
  }
  const auto room = static_cast<size_t>(w.keys.num_compete() + w.keys.num_stay() + 32);
  if (w.list.size() < room) w.list.resize(room);
  if (w.values.size() < room) w.values.resize(room);
  RowList list = {w.list.data(), w.values.data(), list_keys(w.keys.compete, w.list.data(), 0)};
  const float* saved = stats(p, row);
  const RowScores scores = {p.q.row(row, width), p.k.data.get(), width, args.scale};
  recompute_row(p.selection, scores, w.keys, {saved[0], saved[1], saved[2]}, list);
  return list.count;
}

void Backward::weight_gradients(const BackwardPiece& p, int64_t row, int64_t count, BackwardWorker& w) const {
  const auto room = static_cast<size_t>(count + 32);
  for (std::vector<float>* buffer : {&w.gradients, &w.weights, &w.scratch}) {
    if (buffer->size() < room) buffer->resize(room);
  }
  screen_ops().dots(p.grad_out.row(row, width), p.v.data.get(), width, w.list.data(), count, 1, w.gradients.data());
  saved_to_weights(p.selection, w.values.data(), count, w.weights.data());
  if (problem.dropout <= 0) return;
  const int64_t token = p.piece.sequence->q_begin + row;
  const uint32_t key = dropout_row_key(args.random.dropout_key, args.random.first_head + p.piece.head, token);
  const uint32_t threshold = dropout_threshold(problem.dropout);
  const float scale = dropout_scale(problem.dropout);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool keeps = dropout_keeps(key, static_cast<uint32_t>(w.list[at]), threshold);
    w.gradients[at] = keeps ? w.gradients[at] * scale : 0;
    w.weights[at] = keeps ? w.weights[at] * scale : 0;
  }
}

void Backward::row_step(const BackwardTask& task, BackwardWorker& w) const {
  BackwardPiece& p = *task.piece;
  const Selection& selection = p.selection;
  for (int64_t row = task.first; row < task.first + task.count; ++row) {
    int64_t count = kept(p, row)[0];
    const bool listed = count <= layout.capacity;
    if (listed) {
      const auto room = static_cast<size_t>(layout.capacity + 32);
      if (w.list.size() < room) w.list.resize(room);
      if (w.values.size() < room) w.values.resize(room);
      std::memcpy(w.list.data(), kept(p, row) + 1, static_cast<size_t>(count) * sizeof(int32_t));
      std::memcpy(w.values.data(), stats(p, row) + kRowStats, static_cast<size_t>(count) * sizeof(float));
    } else {
      count = relist(p, row, {0, p.piece.sequence->k_length}, w);
    }
    weight_gradients(p, row, count, w);
    float* gradients = w.gradients.data();
    const auto at = static_cast<size_t>(row);
    p.means[at] = gradient_mean(selection, w.values.data(), count, gradients, w.scratch.data());
    if (selection.learned) {
      p.alpha_grads[at] = alpha_gradient(selection, w.values.data(), count, gradients, w.scratch.data());
    }
    score_gradients(selection, w.values.data(), count, p.means[at], gradients, w.scratch.data());
    screen_ops().weighted_sum(p.k.data.get(), width, w.list.data(), gradients, count, w.out);
    write_row(args.grad_q, problem.dtype, p.piece.sequence->q_begin + row, p.piece.head, problem.head_dim, w.out,
              args.scale);
    if (!listed) continue;
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    std::memcpy(p.score_grads.get() + row * layout.capacity, gradients, bytes);
    std::memcpy(p.weights.get() + row * layout.capacity, w.weights.data(), bytes);
  }
}

// A counting sort: within a key, pairs keep the order of queries.
void Backward::transpose(BackwardPiece& p) const {
  const int64_t queries = p.piece.sequence->q_length, keys = p.piece.sequence->k_length;
  p.begin.assign(static_cast<size_t>(keys) + 2, 0);
  p.long_rows.clear();
  for (int64_t row = 0; row < queries; ++row) {
    const int32_t* list = kept(p, row);
    if (list[0] > layout.capacity) {
      p.long_rows.push_back(static_cast<int32_t>(row));
      continue;
    }
    for (int32_t i = 1; i <= list[0]; ++i) ++p.begin[static_cast<size_t>(list[i]) + 2];
  }
  for (size_t key = 2; key < p.begin.size(); ++key) p.begin[key] += p.begin[key - 1];
  const int64_t pairs = p.begin.back();
  if (p.pairs_size < pairs) {
    p.pairs_size = pairs + pairs / 8;
    p.queries = aligned<int32_t>(p.pairs_size);
    p.by_key_grads = aligned<float>(p.pairs_size);
    p.by_key_weights = aligned<float>(p.pairs_size);
  }
  for (int64_t row = 0; row < queries; ++row) {
    const int32_t* list = kept(p, row);
    if (list[0] > layout.capacity) continue;
    for (int32_t i = 0; i < list[0]; ++i) {
      const int64_t to = p.begin[static_cast<size_t>(list[i + 1]) + 1]++;
      p.queries[static_cast<size_t>(to)] = static_cast<int32_t>(row);
      p.by_key_grads[static_cast<size_t>(to)] = p.score_grads[static_cast<size_t>(row * layout.capacity + i)];
      p.by_key_weights[static_cast<size_t>(to)] = p.weights[static_cast<size_t>(row * layout.capacity + i)];
    }
  }
}

void Backward::key_step(const BackwardTask& task, BackwardWorker& w) const {
  const BackwardPiece& p = *task.piece;
  const ScreenOps& ops = screen_ops();
  w.grad_keys.resize(static_cast<size_t>(kTaskRows * width));
  w.grad_values.resize(static_cast<size_t>(kTaskRows * width));
  for (int64_t i = 0; i < task.count; ++i) {
    const int64_t begin = p.begin[static_cast<size_t>(task.first + i)];
    const int64_t count = p.begin[static_cast<size_t>(task.first + i) + 1] - begin;
    const int32_t* queries = p.queries.get() + begin;
    ops.weighted_sum(p.q.data.get(), width, queries, p.by_key_grads.get() + begin, count,
                     w.grad_keys.data() + i * width);
    ops.weighted_sum(p.grad_out.data.get(), width, queries, p.by_key_weights.get() + begin, count,
                     w.grad_values.data() + i * width);
  }
  for (const int32_t row : p.long_rows) {
    const int64_t count = relist(p, row, {task.first, task.first + task.count}, w);
    weight_gradients(p, row, count, w);
    score_gradients(p.selection, w.values.data(), count, p.means[static_cast<size_t>(row)], w.gradients.data(),
                    w.scratch.data());
    ops.scatter(p.q.row(row, width), w.grad_keys.data(), width, w.list.data(), w.gradients.data(), count, task.first);
    ops.scatter(p.grad_out.row(row, width), w.grad_values.data(), width, w.list.data(), w.weights.data(), count,
                task.first);
  }
  for (int64_t i = 0; i < task.count; ++i) {
    const int64_t token = p.piece.sequence->k_begin + task.first + i;
    write_row(args.grad_k, problem.dtype, token, p.piece.head, problem.head_dim, w.grad_keys.data() + i * width,
              args.scale);
    write_row(args.grad_v, problem.dtype, token, p.piece.head, problem.head_dim, w.grad_values.data() + i * width, 1);
  }
}

std::vector<BackwardTask> tasks_of(std::vector<BackwardPiece>& pieces, size_t count, bool by_key) {
  std::vector<BackwardTask> tasks;
  for (size_t i = 0; i < count; ++i) {
    const Sequence& s = *pieces[i].piece.sequence;
    const int64_t rows = by_key ? s.k_length : s.q_length;
    for (int64_t first = 0; first < rows; first += kTaskRows) {
      tasks.push_back({&pieces[i], first, std::min(kTaskRows, rows - first)});
    }
  }
  return tasks;
}

}  // namespace

void screened_backward(const AttentionProblem& problem, const AttentionBackward& args, Executor& executor) {
  const Backward backward = {problem, args, list_layout(problem), padded_width(problem.head_dim)};
  std::vector<BackwardWorker> workers(static_cast<size_t>(executor.num_threads()));
  std::vector<BackwardPiece> pieces;
  std::vector<double> alpha_grads(static_cast<size_t>(problem.num_heads));
  for (const std::vector<Piece>& group : piece_groups(problem)) {
    if (pieces.size() < group.size()) pieces.resize(group.size());
    for (size_t i = 0; i < group.size(); ++i) pieces[i].piece = group[i];
    const auto each_piece = [&](auto&& work) {
      executor.run(static_cast<int64_t>(group.size()), [&](int64_t i, int) { work(pieces[static_cast<size_t>(i)]); });
    };
    const auto each_task = [&](bool by_key, auto&& work) {
      const std::vector<BackwardTask> tasks = tasks_of(pieces, group.size(), by_key);
      executor.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int thread) {
        work(tasks[static_cast<size_t>(i)], workers[static_cast<size_t>(thread)]);
      });
    };
    each_piece([&](BackwardPiece& p) { backward.copy(p); });
    each_task(false, [&](const BackwardTask& task, BackwardWorker& w) { backward.row_step(task, w); });
    each_piece([&](BackwardPiece& p) { backward.transpose(p); });
    each_task(true, [&](const BackwardTask& task, BackwardWorker& w) { backward.key_step(task, w); });
    for (size_t i = 0; i < group.size(); ++i) {
      for (const double gradient : pieces[i].alpha_grads) {
        alpha_grads[static_cast<size_t>(group[i].head)] += gradient;
      }
    }
  }
  if (args.grad_alpha == nullptr) return;
  for (size_t h = 0; h < alpha_grads.size(); ++h) args.grad_alpha[h] = static_cast<float>(alpha_grads[h]);
}

}  // namespace fovea::kernels
