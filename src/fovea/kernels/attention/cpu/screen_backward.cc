#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_select.h"
#include "fovea/kernels/attention/dropout.h"

// screened_backward() takes three steps for each group of pieces. Each task writes only to its own rows, so sums have
// one order:
//   rows       gradients of scores, and of queries
//   transpose  the lists by key
//   keys       gradients of keys and values, each a sum over its own list in the order of queries
namespace fovea::kernels {
namespace {

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
  ScreenSelection selection;
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
  RowStats row_stats() const { return {stats[0], stats[1], stats[2], stats[3]}; }
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

// ---- rows ----

// One row of an array of floats.
template <class T>
T* float_row_of(const Rows<T>& rows, const Piece& piece, int64_t query) {
  return rows.data + (piece.sequence->q_begin + query) * rows.token_stride + piece.head * rows.head_stride;
}

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
  recompute_row(p.selection, scores, w.keys, SavedList{stats}.row_stats(), list);
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
  const ScreenSelection& selection = p.selection;
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
    RowWeights weights = row_weights(selection, list.values, list.count, w.derivatives.data());
    weights.sink = sink_weight(selection, list.row_stats());
    p.means[at] = gradient_mean(weights, out.gradients);
    if (selection.learned) p.alpha_grads[at] = learned_gradient(selection, weights, p.means[at], out.gradients);
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

// ---- transpose and keys ----

void add_row(float* to, const float* from, int64_t width) {
  for (int64_t i = 0; i < width; ++i) to[i] += from[i];
}

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

// ---- all steps ----

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
