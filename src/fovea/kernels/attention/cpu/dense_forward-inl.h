#pragma once
#include "fovea/kernels/attention/cpu/dense_offsets-inl.h"
#include "fovea/kernels/attention/cpu/dense_seen-inl.h"
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"
#if defined(FOVEA_TILES)
#include "fovea/kernels/attention/cpu/dense_tiles-inl.h"
#endif

namespace fovea::kernels {
namespace {

struct DenseForwardBuffers {
  float *keys, *values;  // a block of keys, in panels, and of values, in rows
  float* scores;         // a block of scores
  float* again;          // a row of scores that are computed again
  float *out, *queries;  // rows of the task's queries
  float* running;        // a RunningRow for each of the task's queries
#if defined(FOVEA_TILES)
  DenseForwardTiles tiles;
#endif
};

inline DenseForwardBuffers dense_forward_buffers(Arena& arena, int64_t queries, int64_t width) {
  const int64_t padded = round_up(width, kLanes);
  return {
    .keys = arena.take(panel_floats(kBlockColumns, width)), .values = arena.take(kBlockColumns * padded),
    .scores = arena.take(kBlockRows * kBlockStride), .again = arena.take(kBlockStride),
    .out = arena.take(round_up(queries, 16) * padded),  // of whole tiles
        .queries = arena.take(queries * padded), .running = arena.take(2 * queries),
#if defined(FOVEA_TILES)
    .tiles = DenseForwardTiles(arena, queries, width)
#endif
  };
}

class DenseForwardTask {
 public:
  DenseForwardTask(const DenseCall& call, const DenseTask& task, float* scratch)
      : task_(task),
        view_(call, task, *call.forward),
        in_(*call.forward),
        arena_(scratch),
        b_(dense_forward_buffers(arena_, count(), view_.width)),
        terms_(view_, in_.terms, window_buffers(arena_, call), in_.scale) {
    const DType dtype = view_.problem.dtype;
    scores_ = RowDots(head_rows(in_.q, task.head, dtype), head_rows(in_.k, view_.key_head(), dtype), view_.width,
                      view_.words(call.bf16->scores));
    values_ = head_rows(in_.v, view_.key_head(), dtype);
    out_ = head_rows(in_.out, task.head, dtype);
    tiled_ = call.tiled->of(view_.index(), task.head);
    if (!tiled_) queries_ = scores_.packed_left(view_.queries(task.begin), count(), b_.queries);
    fill(b_.out, 0, count() * view_.padded, 0);
    // A sink is like a key that every row has seen before, of the value 0.
    const std::optional<float> sink = sink_of(view_.problem.spec.transform, in_.alpha, task.head);
    for (int64_t i = 0; i < count(); ++i) running()[i] = sink ? RunningRow{.top = *sink, .total = 1} : RunningRow{};
#if defined(FOVEA_TILES)
    const HeadRows queries = head_rows(in_.q, task.head, dtype), keys = head_rows(in_.k, view_.key_head(), dtype);
    if (tiled_) b_.tiles.begin({queries, view_.queries(task.begin), count(), view_.width}, keys, values_, in_.scale);
#endif
  }

  template <class Transform>
  void run(const Transform& transform) {
    const int64_t seen = view_.seen(task_.end - 1), block_rows = tiled_ ? kTiledRows : kBlockRows;
    const TiledRun tiled(tiled_);
    for (int64_t begin = 0; begin < seen; begin += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, seen - begin);
      pack_keys(begin, columns);
      for (int64_t first = task_.begin; first < task_.end; first += block_rows) {
        const int64_t rows = std::min(block_rows, task_.end - first);
        const int64_t limit = view_.seen(first + rows - 1) - begin;
        if (limit > 0) add_block(transform, {first, rows, begin, std::min(columns, limit)});
      }
    }
    for (int64_t i = 0; i < count(); ++i) finish_row(transform, i);
  }

 private:
  int64_t count() const { return task_.end - task_.begin; }
  RunningRow* running() const { return reinterpret_cast<RunningRow*>(b_.running); }

  void pack_keys(int64_t begin, int64_t columns) {
#if defined(FOVEA_TILES)
    if (tiled_) return b_.tiles.pack_keys(view_.keys(begin), columns);
#endif
    scores_.pack_right(view_.keys(begin), columns, b_.keys);
    value_rows_ = packed_rows(values_, view_.keys(begin), columns, view_.width, b_.values);
  }

  void drop_weights(const DenseBlock& block) {
    for (int64_t r = 0; r < block.rows; ++r) {
      view_.dropout(block.first + r, block.begin).apply(b_.scores + r * kBlockStride, block.part());
    }
  }

#if defined(FOVEA_TILES)
  template <class Transform>
  void add_tiled_block(const Transform& transform, const DenseBlock& block) {
    const int64_t at = block.first - task_.begin, padded = view_.padded;
    b_.tiles.score(block, at, b_.scores);
    cap_block(view_, block, b_.scores, nullptr);
    if (terms_.any()) terms_.add(block, b_.scores);
    mask_block(view_, block, b_.scores, -kInfinity);
    if (view_.problem.dropout <= 0) {
      transform.weigh(b_.scores, block, running() + at, b_.out + at * padded, padded, b_.tiles.weights(block));
    } else {
      transform.weigh(b_.scores, block, running() + at, b_.out + at * padded, padded);
      drop_weights(block);
      b_.tiles.split(block, b_.scores);
    }
    b_.tiles.add_values(block, b_.out + at * padded);
  }
#endif

  template <class Transform>
  void add_block(const Transform& transform, const DenseBlock& block) {
#if defined(FOVEA_TILES)
    if (tiled_) return add_tiled_block(transform, block);
#endif
    const int64_t at = block.first - task_.begin, padded = view_.padded;
    const SeenPairs pairs(view_, block);
    pairs.multiply_scores(
        scores_, {queries_ + at * scores_.stride(), scores_.stride(), b_.keys, b_.scores, kBlockStride, in_.scale},
        {0, block.rows});
    cap_block(view_, block, b_.scores, nullptr);
    if (terms_.any()) terms_.add(block, b_.scores);
    mask_block(view_, block, b_.scores, -kInfinity);
    PositiveScores positive;
    if constexpr (Transform::kSkips)
      PositiveSearch(b_.scores, block, padded / kLanes, kPassingCosts.forward).run(positive);
    if (positive.live == 0) return;
    transform.weigh(b_.scores, block, running() + at, b_.out + at * padded, padded);
    if (view_.problem.dropout > 0) drop_weights(block);
    sum_values(block, pairs, positive);
  }

  // Weights times values.
  Product value_product(const DenseBlock& block) const {
    static constexpr float kOne = 1;
    const int64_t padded = view_.padded;
    return {.a = b_.scores,
            .a_row = kBlockStride,
            .b = value_rows_,
            .b_step = padded,
            .c = b_.out + (block.first - task_.begin) * padded,
            .c_row = padded,
            .depth = block.columns,
            .factor = &kOne,
            .add = true};
  }

  void sum_values(const DenseBlock& block, const SeenPairs& pairs, const PositiveScores& positive) {
    const int64_t vecs = view_.padded / kLanes;
    if (positive.few) return multiply_marked(value_product(block), positive.rows_from(0), block.rows, vecs);
    RowRun run = next_run(positive.live, block.rows, 0);
    for (; run.count > 0; run = next_run(positive.live, block.rows, run.first + run.count)) {
      pairs.multiply_rows(value_product(block), run, vecs);
    }
  }

  template <class Transform>
  void finish_row(const Transform& transform, int64_t i) {
    const RunningRow row = running()[i];
    float* out = b_.out + i * view_.padded;
    if (!all_finite(out, view_.padded)) sum_again(transform, i);
    const float factor = Transform::factor(row);
    for (int64_t j = 0; j < view_.padded; j += kLanes) store(out + j, load(out + j) * set(factor));
    unpack_rows({out, view_.padded, view_.width}, out_, view_.queries(task_.begin + i), 1);
    if (view_.stats == 0 || in_.stats == nullptr || !view_.problem.needs_backward) return;
    float* stats = in_.stats + view_.stats_at(task_.begin + i);
    stats[0] = row.top;
    stats[1] = factor;
    if (out_.lane == Lane::kBFloat16) save_residual(i);
  }

  // Saves the rounding error of row i of the outputs: up to half of bfloat16's last place, which is 2^15 of float32's
  // last places. An error of exactly that size loses one of them.
  void save_residual(int64_t i) {
    const float *out = b_.out + i * view_.padded, *rounded = b_.scores;
    pack_rows(out_, view_.queries(task_.begin + i), 1, view_.width, b_.scores);
    const HeadRows residuals = view_.residuals(in_.stats);
    auto* rest = static_cast<int16_t*>(const_cast<void*>(residuals.data)) + (task_.begin + i) * residuals.stride;
    for (int64_t j = 0; j < view_.width; ++j) {
      const uint32_t places = std::bit_cast<uint32_t>(out[j]) - std::bit_cast<uint32_t>(rounded[j]);
      rest[j] = static_cast<int16_t>(std::min(static_cast<int32_t>(places), 0x7fff));
    }
  }

  // A value that is not finite must reach no row that gives it no weight, though 0 x NaN is NaN: the row is summed
  // again without its zeros, with the maximum that it ended with.
  template <class Transform>
  void sum_again(const Transform& transform, int64_t i) {
    const int64_t query = task_.begin + i, padded = view_.padded;
    float* out = b_.out + i * padded;
    RunningRow row = running()[i];
    fill(out, 0, padded, 0);
    const float* left = scores_.packed_left(view_.queries(query), 1, b_.queries);
    for (int64_t begin = 0; begin < view_.seen(query); begin += kBlockColumns) {
      const DenseBlock block{query, 1, begin, std::min(kBlockColumns, view_.seen(query) - begin)};
      scores_.pack_right(view_.keys(begin), block.columns, b_.keys);
      const float* values = packed_rows(values_, view_.keys(begin), block.columns, view_.width, b_.values);
      scores_.multiply({left, scores_.stride(), b_.keys, b_.again, kBlockStride, in_.scale}, 1, block.part());
      cap_block(view_, block, b_.again, nullptr);
      if (terms_.any()) terms_.add(block, b_.again);
      mask_block(view_, block, b_.again, -kInfinity);
      transform.weigh(b_.again, block, &row, out, padded);
      if (view_.problem.dropout > 0) view_.dropout(query, begin).apply(b_.again, block.part());
      for (int64_t c = 0; c < block.columns; ++c) {
        if (b_.again[c] == 0) continue;
        for (int64_t j = 0; j < padded; j += kLanes) {
          store(out + j, fma(set(b_.again[c]), load(values + c * padded + j), load(out + j)));
        }
      }
    }
  }

  const DenseTask& task_;
  const DenseView view_;
  const AttentionForward& in_;
  RowDots scores_;
  HeadRows values_, out_;
  bool tiled_ = false;
  Arena arena_;
  DenseForwardBuffers b_;
  const float *queries_ = nullptr, *value_rows_ = nullptr;  // packed: of the task, of the block of keys at hand
  DenseTerms terms_;
};

}  // namespace
}  // namespace fovea::kernels
