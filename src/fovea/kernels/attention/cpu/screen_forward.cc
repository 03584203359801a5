#include <algorithm>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_search.h"
#include "fovea/kernels/attention/dropout.h"

namespace fovea::kernels {
namespace {

// The keys and values of a sequence under one of their heads.
struct PreparedKeys {
  Piece piece;  // head: of k and v
  HeadCopy keys, values;
  GrowingArray<float> mean;
  GrowingArray<uint32_t> words;
  std::vector<KeyBlock> blocks;
  PackedKeys packed;
};
struct PreparedPiece {
  Piece piece;
  const PreparedKeys* keys = nullptr;
  ScreenSelection selection;
  float most_by_head = 0;  // of its terms by offset, in magnitude
};

// The mean of at most 256 keys evenly spread: nearly that of all, when keys share a component.
void sample_mean(const HeadCopy& keys, int64_t count, int64_t width, float* mean) {
  const int64_t step = std::max<int64_t>(1, count / 256);
  std::vector<double> total(static_cast<size_t>(width));
  int64_t samples = 0;
  for (int64_t key = 0; key < count; key += step, ++samples) {
    const float* row = keys.row(key, width);
    for (int64_t i = 0; i < width; ++i) total[static_cast<size_t>(i)] += row[i];
  }
  for (int64_t i = 0; i < width; ++i) {
    mean[i] = static_cast<float>(total[static_cast<size_t>(i)] / static_cast<double>(std::max<int64_t>(1, samples)));
  }
}

struct ForwardWorker {
  CandidateSearch search;
  Piece piece;  // of the last task
  // The row's list and weights after dropout.
  std::vector<int32_t> list;
  std::vector<float> weights;
  float out[kMaxScreenHeadDim];
};

struct ForwardTask {
  const PreparedPiece* piece = nullptr;
  int64_t first = 0, count = 0;  // queries of its sequence
  // For backward: the rows' lists, one after the other, until all sizes are known; then begin is their place, or -1.
  Aligned<float> lists;  // the keys, then the values
  int64_t listed = 0, begin = -1;
};

struct RowPlace {
  int64_t head = 0, token = 0;
};

// The inputs that all steps read, and the steps.
struct Forward {
  const AttentionProblem& problem;
  const AttentionForward& args;
  SavedRows rows;

  void prepare(PreparedPiece& p) const;
  void pack_keys(PreparedKeys& p) const;
  void copy_values(PreparedKeys& p) const;
  void run(ForwardTask& task, ForwardWorker& worker) const;
  void keep_lists(ForwardTask& task, CandidateSearch& search) const;
  // Saves the task's lists if there is room for all of them, otherwise none.
  void save_lists(ForwardTask& task) const;

 private:
  void save_row(const SavedPlace& to, const RowStats& stats, const RowList& list) const;
  // The weights that are not zero and survive dropout, in the worker's lists.
  RowList drop_weights(const ScreenSelection& selection, const RowList& list, RowPlace place,
                       ForwardWorker& worker) const;
  // Selects exactly and computes the weights of all rows of the block, while the next row's keys are prefetched.
  void weigh_rows(const ForwardTask& task, ForwardWorker& worker) const;
  void sum_rows(const ForwardTask& task, ForwardWorker& worker) const;
  void sum_weights(const Piece& piece, int64_t query, const RowList& list) const;
};

void Forward::copy_values(PreparedKeys& p) const {
  const Sequence& s = *p.piece.sequence;
  p.values.read({args.v, problem, p.piece.head}, s.k_begin, s.k_length);
}

void Forward::prepare(PreparedPiece& p) const {
  p.selection = selection_of(problem.spec, args.alpha == nullptr ? nullptr : args.alpha + p.piece.head);
  if (const int64_t count = problem.offsets.by_head.count; count > 0) {
    p.most_by_head = greatest_magnitude(args.terms.by_head + p.piece.head * count, count);
  }
}

void Forward::pack_keys(PreparedKeys& p) const {
  const Sequence& s = *p.piece.sequence;
  const int64_t width = padded_width(problem.head_dim);
  p.keys.read({args.k, problem, p.piece.head}, s.k_begin, s.k_length);
  sample_mean(p.keys, s.k_length, width, p.mean.at_least(width));

  PackedKeys& packed = p.packed;
  packed = {};
  packed.num_keys = s.k_length;
  packed.width = width;
  const bool causal = problem.kind == AttentionKind::kCausal;
  packed.format = fastest_screen_format({width, causal ? s.k_length / 2 : s.k_length, selected_per_row(problem.spec)});
  packed.steps = screen_steps(packed.format, width);
  packed.rows = p.keys.get();
  packed.mean = p.mean.get();
  const int64_t tiles = (s.k_length + kTileKeys - 1) / kTileKeys;
  packed.words = p.words.at_least(tiles * tile_words(packed.format, packed.steps));
  p.blocks.assign(static_cast<size_t>((s.k_length + kBlockKeys - 1) / kBlockKeys), KeyBlock{});
  packed.blocks = p.blocks.data();
  screen_ops().pack_keys(packed);
}

void Forward::keep_lists(ForwardTask& task, CandidateSearch& search) const {
  task.listed = 0;
  for (int64_t i = 0; i < task.count; ++i) task.listed += search.row(i).list.count;
  if (task.listed > rows.most(task.count)) return;
  task.lists = aligned<float>(2 * task.listed);
  float* to = task.lists.get();
  for (int64_t i = 0; i < task.count; ++i) {
    const RowList& list = search.row(i).list;
    std::memcpy(to, list.keys, static_cast<size_t>(list.count) * sizeof *list.keys);
    std::memcpy(to + task.listed, list.values, static_cast<size_t>(list.count) * sizeof *list.values);
    to += list.count;
  }
}

void Forward::save_lists(ForwardTask& task) const {
  int64_t begin = task.begin;
  for (int64_t i = 0; i < task.count; ++i) {
    int32_t* entry = args.kept + rows.of(task.piece->piece, task.first + i).entry;
    entry[1] = static_cast<int32_t>(begin);
    if (begin >= 0) begin += entry[0];
  }
  if (task.begin >= 0) {
    const SavedPlace to = rows.of(task.piece->piece, task.first);
    const auto count = static_cast<size_t>(task.listed);
    std::memcpy(args.kept + to.keys + task.begin, task.lists.get(), count * sizeof(int32_t));
    std::memcpy(args.stats + to.values + task.begin, task.lists.get() + task.listed, count * sizeof(float));
  }
  task.lists.reset();
}

void Forward::save_row(const SavedPlace& to, const RowStats& stats, const RowList& list) const {
  float* of_row = args.stats + to.stats;
  of_row[0] = stats.threshold;
  of_row[1] = stats.center;
  of_row[2] = stats.norm;
  of_row[3] = stats.blend;
  args.kept[to.entry] = static_cast<int32_t>(list.count);
}

RowList Forward::drop_weights(const ScreenSelection& selection, const RowList& list, RowPlace place,
                              ForwardWorker& worker) const {
  const auto room = static_cast<size_t>(list.count) + 16;
  if (worker.weights.size() < room) {
    worker.weights.resize(room);
    worker.list.resize(room);
  }
  RowList left = {worker.list.data(), worker.weights.data(), 0};
  saved_to_weights(selection, list.values, list.count, left.values);
  const uint32_t key = dropout_row_key(args.random.dropout_key, args.random.first_head + place.head, place.token);
  const uint32_t threshold = dropout_threshold(problem.dropout);
  const float scale = dropout_scale(problem.dropout);
  for (int64_t i = 0; i < list.count; ++i) {
    left.keys[left.count] = list.keys[i];
    left.values[left.count] = left.values[i] * scale;
    const bool stays = left.values[left.count] != 0;  // else a value that is not finite would reach the row
    left.count += stays && dropout_keeps(key, static_cast<uint32_t>(list.keys[i]), threshold) ? 1 : 0;
  }
  return left;
}

int64_t token_of(const ForwardTask& task, int64_t index) {
  return task.piece->piece.sequence->q_begin + task.first + index;
}

void fetch_list(const PreparedKeys& p, const float* rows, const RowList& list) {
  constexpr int64_t kMost = 256;  // more would push one another out
  if (is_near(p.packed.num_keys, p.packed.width)) return;
  screen_ops().fetch({rows, p.packed.width, list.keys, std::min(list.count, kMost)});
}

void Forward::weigh_rows(const ForwardTask& task, ForwardWorker& worker) const {
  const PreparedPiece& p = *task.piece;
  const PreparedKeys& keys = *p.keys;
  for (int64_t i = 0; i < task.count; ++i) {
    if (i + 1 < task.count && !worker.search.row(i + 1).list.threshold) {
      fetch_list(keys, keys.packed.rows, worker.search.row(i + 1).list);
    }
    ScreenedQuery& query = worker.search.row(i);
    const RowScores scores = {worker.search.query(i), keys.packed.rows, keys.packed.width, args.scale, query.terms};
    const RowStats stats = select_row(p.selection, scores, query.keys, query.list, query.least_mu(p.selection.power));
    fetch_list(keys, keys.values.get(), query.list);
    if (problem.needs_backward) save_row(rows.of(p.piece, task.first + i), stats, query.list);
  }
}

void Forward::sum_rows(const ForwardTask& task, ForwardWorker& worker) const {
  const PreparedPiece& p = *task.piece;
  const OneHead<void> out(args.out, problem, p.piece.head);
  for (int64_t i = 0; i < task.count; ++i) {
    const RowPlace place = {p.piece.head, token_of(task, i)};
    RowList list = worker.search.row(i).list;
    if (p.selection.saves_scores() || problem.dropout > 0) {
      list = drop_weights(p.selection, list, place, worker);
    }
    screen_ops().weighted_sum({p.keys->values.get(), p.keys->packed.width, list.keys, list.count}, list.values,
                              worker.out);
    write_row(out, place.token, worker.out, 1);
    if (problem.offsets.sums.count > 0) sum_weights(task.piece->piece, task.first + i, list);
  }
}

void Forward::sum_weights(const Piece& piece, int64_t query, const RowList& list) const {
  const OffsetRange& range = problem.offsets.sums;
  const Rows<float>& to = args.terms.sums;
  const Sequence& s = *piece.sequence;
  float* sums = to.data + (s.q_begin + query) * to.token_stride + piece.head * to.head_stride;
  std::fill_n(sums, range.count, 0.0F);
  const int64_t position = query + s.k_length - s.q_length;
  for (int64_t i = 0; i < list.count; ++i) sums[range.index(list.keys[i] - position)] += list.values[i];
}

void Forward::run(ForwardTask& task, ForwardWorker& worker) const {
  const PreparedPiece& p = *task.piece;
  const Sequence& s = *p.piece.sequence;
  const uint64_t stream = args.random.pattern(p.piece.head);
  const OneHead<const void> q(args.q, problem, p.piece.head);
  for (int64_t i = 0; i < task.count; ++i) {
    find_keys(problem.spec, row_of(problem, s, task.first + i, stream), worker.search.row(i).keys);
    read_row(q, s.q_begin + task.first + i, worker.search.query(i));
    worker.search.row(i).terms = {};
    if (problem.offsets.changes_scores()) {
      worker.search.row(i).terms = terms_of(problem, args.terms, p.piece, task.first + i, p.most_by_head);
    }
  }
  if (worker.piece != p.piece) worker.search.forget();
  worker.piece = p.piece;
  worker.search.run(p.selection, p.keys->packed, args.scale, task.count);
  weigh_rows(task, worker);
  if (problem.needs_backward) keep_lists(task, worker.search);
  sum_rows(task, worker);
}

}  // namespace

void screened_forward(const AttentionProblem& problem, const AttentionForward& args, Executor& executor) {
  int64_t most_keys = 0;
  for (const Sequence& s : problem.sequences) most_keys = std::max(most_keys, s.k_length);
  std::vector<std::unique_ptr<ForwardWorker>> workers(static_cast<size_t>(executor.num_threads()));
  std::vector<PreparedPiece> pieces;
  std::vector<PreparedKeys> keys;
  const Forward forward = {problem, args, SavedRows(problem, args.saved)};
  std::vector<int64_t> used(problem.sequences.size());  // of the sequences' room for lists
  for (const std::vector<Piece>& group : piece_groups(problem)) {
    const std::vector<KeyPieces> shared = key_pieces(problem, group);
    pieces.resize(group.size());
    if (keys.size() < shared.size()) keys.resize(shared.size());
    for (size_t k = 0; k < shared.size(); ++k) {
      keys[k].piece = shared[k].keys;
      for (size_t i = shared[k].begin; i < shared[k].end; ++i) {
        pieces[i] = {group[i], &keys[k], {}, 0};
        forward.prepare(pieces[i]);
      }
    }
    executor.run(static_cast<int64_t>(2 * shared.size()), [&](int64_t i, int) {
      PreparedKeys& of = keys[static_cast<size_t>(i / 2)];
      i % 2 == 0 ? forward.pack_keys(of) : forward.copy_values(of);
    });

    std::vector<ForwardTask> tasks;
    for (size_t i = 0; i < group.size(); ++i) {
      const int64_t queries = group[i].sequence->q_length;
      // The last queries come first, because causal ones see the most keys.
      for (int64_t first = (queries - 1) / kBlockQueries * kBlockQueries; queries > 0 && first >= 0;
           first -= kBlockQueries) {
        tasks.push_back({&pieces[i], first, std::min<int64_t>(kBlockQueries, queries - first), {}});
      }
    }
    executor.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int thread) {
      auto& worker = workers[static_cast<size_t>(thread)];
      if (!worker) {
        worker.reset(new ForwardWorker{CandidateSearch(most_keys, padded_width(problem.head_dim)), {}, {}, {}, {}});
      }
      forward.run(tasks[static_cast<size_t>(i)], *worker);
    });
    if (!problem.needs_backward) continue;
    for (ForwardTask& task : tasks) {
      const Sequence& s = *task.piece->piece.sequence;
      int64_t& of_sequence = used[static_cast<size_t>(&s - problem.sequences.data())];
      if (!task.lists || of_sequence + task.listed > forward.rows.room(s)) continue;
      task.begin = of_sequence;
      of_sequence += task.listed;
    }
    executor.run(static_cast<int64_t>(tasks.size()),
                 [&](int64_t i, int) { forward.save_lists(tasks[static_cast<size_t>(i)]); });
  }
}

}  // namespace fovea::kernels
