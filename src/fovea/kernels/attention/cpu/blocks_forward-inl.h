#pragma once
#include "fovea/kernels/attention/cpu/blocks_common-inl.h"
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"

namespace fovea::kernels {
namespace {

struct BlocksForwardBuffers {
  float *keys, *values;  // of a block: panels, rows
  float *queries, *out;  // of gathered queries
  float *scores, *again;
  // Each of the task's queries with its output before the division behind it; and a RunningRow each.
  float *rows, *running;
};

inline BlocksForwardBuffers blocks_forward_buffers(Arena& arena, int64_t queries, int64_t width) {
  const int64_t padded = round_up(width, kLanes);
  return {.keys = arena.take(panel_floats(kBlocksColumns, width)),
          .values = arena.take(kBlocksColumns * padded),
          .queries = arena.take(kBlockRows * padded),
          .out = arena.take(kBlockRows * padded),
          .scores = arena.take(kBlockRows * kBlockStride),
          .again = arena.take(kBlockStride),
          .rows = arena.take(2 * queries * padded),
          .running = arena.take(2 * queries)};
}

class BlocksForwardTask {
 public:
  BlocksForwardTask(const BlocksCall& call, const BlocksTask& task, const BlockQueries& chosen, float* scratch)
      : task_(task),
        chosen_(chosen),
        view_(call, task, task.head, *call.forward),
        in_(*call.forward),
        scores_(view_.rows(in_.q, task.head), view_.rows(in_.k, view_.key_head()), view_.width, Words::kFloats),
        values_(view_.rows(in_.v, view_.key_head())),
        out_(head_rows(in_.out, task.head, view_.problem.dtype)),
        arena_(scratch),
        b_(blocks_forward_buffers(arena_, count(), view_.width)) {
    const HeadRows queries = view_.rows(in_.q, task.head);
    for (int64_t i = 0; i < count(); ++i) {
      prefetch_row(queries, view_.query(task.begin + i)[0] + kPackedAhead, view_.width);
      scores_.pack_left(view_.query(task.begin + i), 1, row_of(i));
      fill(row_of(i) + view_.padded, 0, view_.padded, 0);
    }
    // A sink is like a key that every row has seen before, of the value 0.
    const std::optional<float> sink = sink_of(view_.problem.spec.transform, in_.alpha, task.head);
    for (int64_t i = 0; i < count(); ++i) running()[i] = sink ? RunningRow{.top = *sink, .total = 1} : RunningRow{};
  }

  void run() {
    for (int64_t block = 0; block < blocks(); ++block) {
      if (chosen_.count(block) == 0) continue;
      each_part(view_, block, [&](int64_t begin, int64_t columns) { add_part(block, begin, columns); });
    }
    for (int64_t i = 0; i < count(); ++i) finish_row(i);
  }

 private:
  int64_t count() const { return task_.end - task_.begin; }
  int64_t blocks() const {
    return (view_.sequence.k_length + view_.problem.given.block - 1) / view_.problem.given.block;
  }
  RunningRow* running() const { return reinterpret_cast<RunningRow*>(b_.running); }
  float* row_of(int64_t i) const { return b_.rows + 2 * i * view_.padded; }

  void pack_keys(int64_t begin, int64_t columns) {
    scores_.pack_right(view_.keys(begin), columns, b_.keys);
    value_rows_ = packed_rows(values_, view_.keys(begin), columns, view_.width, b_.values);
  }

  void add_part(int64_t block, int64_t begin, int64_t columns) {
    pack_keys(begin, columns);
    const int32_t* queries = chosen_.of(block);
    for (int64_t first = 0; first < chosen_.count(block); first += kBlockRows) {
      add_rows({queries + first, std::min(kBlockRows, chosen_.count(block) - first), begin, columns});
    }
  }

  void score(const GatheredBlock& block, const float* left, float* s) const {
    scores_.multiply({left, scores_.stride(), b_.keys, s, kBlockStride, in_.scale}, block.rows, block.part());
    view_.finish_scores(block, in_.terms, s, nullptr);
  }

  // The outputs and the running numbers of the queries come together, are brought up to date, and go back.
  void add_rows(const GatheredBlock& block) {
    RunningRow rows[kBlockRows];
    const int64_t padded = view_.padded;
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t at = block.queries[r] - task_.begin;
      prefetch_gathered(block, r, row_of(-task_.begin), 2 * padded);
      rows[r] = running()[at];
      copy_floats(row_of(at), padded, b_.queries + r * padded);
      copy_floats(row_of(at) + padded, padded, b_.out + r * padded);
    }
    score(block, b_.queries, b_.scores);
    const DenseBlock dense{.rows = block.rows, .columns = block.columns};
    DenseSoftmax::weigh(b_.scores, dense, rows, b_.out, padded);
    if (view_.problem.dropout > 0) {
      for (int64_t r = 0; r < block.rows; ++r) {
        view_.dropout(block.queries[r], block.begin).apply(b_.scores + r * kBlockStride, block.part());
      }
    }
    static constexpr float kOne = 1;
    multiply({.a = b_.scores,
              .a_row = kBlockStride,
              .b = value_rows_,
              .b_step = padded,
              .c = b_.out,
              .c_row = padded,
              .depth = block.columns,
              .factor = &kOne,
              .add = true},
             block.rows, padded / kLanes);
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t at = block.queries[r] - task_.begin;
      running()[at] = rows[r];
      copy_floats(b_.out + r * padded, padded, row_of(at) + padded);
    }
  }

  void finish_row(int64_t i) {
    const RunningRow row = running()[i];
    const int64_t query = task_.begin + i;
    float* out = row_of(i) + view_.padded;
    if (!all_finite(out, view_.padded)) sum_again(static_cast<int32_t>(query), row, out);
    const float factor = DenseSoftmax::factor(row);
    for (int64_t j = 0; j < view_.padded; j += kLanes) store(out + j, load(out + j) * set(factor));
    unpack_rows({out, view_.padded, view_.width}, out_, view_.query(query), 1);
    if (in_.stats == nullptr || !view_.problem.needs_backward) return;
    float* stats = in_.stats + view_.stats_at(query);
    stats[0] = row.top, stats[1] = factor;
    if (view_.stats > 2) std::memcpy(stats + 2, out, static_cast<size_t>(view_.width) * sizeof(float));
  }

  // A value that is not finite must reach no row that gives it no weight, though 0 x NaN is NaN: the row is summed
  // again without its zeros, with the maximum that it ended with.
  void sum_again(int32_t query, RunningRow row, float* out) {
    const int64_t padded = view_.padded;
    fill(out, 0, padded, 0);
    scores_.pack_left(view_.query(query), 1, b_.queries);
    for (int64_t block = 0; block < blocks(); ++block) {
      if (!has(block, query)) continue;
      each_part(view_, block, [&](int64_t begin, int64_t columns) {
        pack_keys(begin, columns);
        const GatheredBlock one{&query, 1, begin, columns};
        score(one, b_.queries, b_.again);
        DenseSoftmax::weigh(b_.again, {.rows = 1, .columns = columns}, &row, out, padded);
        if (view_.problem.dropout > 0) view_.dropout(query, begin).apply(b_.again, one.part());
        for (int64_t c = 0; c < columns; ++c) {
          if (b_.again[c] == 0) continue;
          for (int64_t j = 0; j < padded; j += kLanes) {
            store(out + j, fma(set(b_.again[c]), load(value_rows_ + c * padded + j), load(out + j)));
          }
        }
      });
    }
  }
  bool has(int64_t block, int32_t query) const {
    const int32_t* queries = chosen_.of(block);
    for (int64_t i = 0; i < chosen_.count(block); ++i) {
      if (queries[i] == query) return true;
    }
    return false;
  }

  const BlocksTask& task_;
  const BlockQueries chosen_;
  const BlocksView view_;
  const AttentionForward& in_;
  const RowDots scores_;
  const HeadRows values_, out_;
  Arena arena_;
  const BlocksForwardBuffers b_;
  const float* value_rows_ = nullptr;  // of the keys at hand
};

}  // namespace
}  // namespace fovea::kernels
