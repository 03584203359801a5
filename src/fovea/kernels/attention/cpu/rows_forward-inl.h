#pragma once
#include "fovea/kernels/attention/cpu/row_dots-inl.h"
#include "fovea/kernels/attention/cpu/rows_offsets-inl.h"
#include "fovea/kernels/attention/cpu/rows_single-inl.h"

namespace fovea::kernels {
namespace {

struct ForwardBuffers {
  float *keys, *values;           // of the group: panels of keys; rows of values
  float *scores, *queries, *out;  // of the chunk
  float *factors, *aside, *room;
  float* list;  // int32: HeadView::room
};

inline ForwardBuffers forward_buffers(Arena& arena, const TaskSize& size, int64_t width, bool selects) {
  const int64_t padded = round_up(width, kLanes);
  return {.keys = arena.take(panel_floats(size.packed, width)),
          .values = arena.take(size.packed * padded),
          .scores = arena.take(size.scores),
          .queries = arena.take(size.rows * padded),
          .out = arena.take(size.rows * padded),
          .factors = arena.take(size.rows),
          .aside = arena.take(score_stride(size.columns)),
          .room = arena.take(selects ? score_stride(size.columns) : 0),
          .list = arena.take(size.listed)};
}

inline bool all_finite(const float* x, int64_t n) {
  F differences = set(0);  // x - x: zero, NaN where x is not finite
  for (int64_t i = 0; i < n; i += kLanes) differences = differences + (load(x + i) - load(x + i));
  return sum(differences) == 0;
}

// A row of write_out's product, in its order, without the terms of weight zero. For rows that are not finite: a value
// that is not must reach no row that gives it no weight, though 0 x NaN is NaN.
inline void mix_again(const float* p, int64_t columns, const float* values, int64_t padded, float factor, float* out) {
  for (int64_t i = 0; i < padded; i += kLanes) {
    F total = set(0);
    for (int64_t c = 0; c < columns; ++c) {
      if (p[c] != 0) total = fma(set(p[c]), load(values + c * padded + i), total);
    }
    store(out + i, total * set(factor));
  }
}

class ForwardTask {
 public:
  ForwardTask(const RowsCall& call, int64_t index, float* scratch)
      : task_(call.tasks[static_cast<size_t>(index)]),
        view_(call, task_, *call.forward),
        in_(*call.forward),
        arena_(scratch),
        b_(forward_buffers(arena_, size_of(view_.table, task_), view_.width, view_.problem.spec.selects())),
        terms_(view_, in_.terms, product_buffers(arena_, call, task_), in_.scale) {
    const DType dtype = view_.problem.dtype;
    view_.room = reinterpret_cast<int32_t*>(b_.list);
    queries_ = head_rows(in_.q, task_.head, dtype);
    keys_ = head_rows(in_.k, view_.key_head(), dtype);
    scores_ = RowDots(queries_, keys_, view_.width, view_.words(call.bf16->scores));
    values_ = head_rows(in_.v, view_.key_head(), dtype);
    out_ = head_rows(in_.out, task_.head, dtype);
  }

  template <class Transform>
  void run(const Transform& transform) {
    for (int64_t g = task_.group_begin; g < task_.group_end; ++g) {
      const RowGroup& group = view_.table.groups[static_cast<size_t>(g)];
      view_.begin_group(group);
      if (terms_.any()) terms_.begin_group(group);
      if (group.queries == 1) {
        single(transform, group);
        continue;
      }
      scores_.pack_right(view_.keys(group), group.columns, b_.keys);
      pack_rows(values_, view_.keys(group), group.columns, view_.width, b_.values);
      const int64_t step = chunk_rows(group.queries, group.columns);
      for (int64_t i = 0; i < group.queries; i += step) {
        chunk(transform, group, i, std::min<int64_t>(step, group.queries - i));
      }
    }
  }

 private:
  template <class Transform>
  void chunk(const Transform& transform, const RowGroup& group, int64_t first, int64_t rows) {
    const ColumnPart part = hull_of(view_.table, group, first, rows);
    const TokenList tokens = view_.queries(group, first);
    const int64_t stride = score_stride(group.columns);
    const float* a = static_cast<const float*>(queries_.data) + tokens[0] * queries_.stride;
    int64_t a_row = queries_.stride * tokens.step;
    if (queries_.lane != Lane::kFloat) {
      scores_.pack_left(tokens, rows, b_.queries);
      a = b_.queries;
      a_row = scores_.stride();
    }
    scores_.multiply({a, a_row, b_.keys, b_.scores, stride, in_.scale}, rows, part);
    weigh(transform, group, first, rows, part);
    write_out(group, tokens, rows, part);
  }

  // Scores of the chunk, at b_.scores, to weights.
  template <class Transform>
  void weigh(const Transform& transform, const RowGroup& group, int64_t first, int64_t rows, ColumnPart part) {
    const TokenList tokens = view_.queries(group, first);
    const int64_t stride = score_stride(group.columns);
    const Selection& select = view_.problem.spec.selection;
    const int64_t stats_step = group.query_step * view_.problem.num_heads * view_.stats;
    float* stats =
        in_.stats == nullptr || !view_.problem.needs_backward ? nullptr : in_.stats + view_.stats_of(tokens[0]);
    const RowChunk chunk = {group, first, rows, part};
    if (const auto& cap = view_.problem.spec.cap) {
      for (int64_t r = 0; r < rows; ++r) cap_row(SoftCap(cap->cap), b_.scores + r * stride, part, nullptr);
    }
    if (terms_.any()) terms_.add(chunk, b_.scores, stride);
    for (int64_t r = 0; r < rows; ++r) {
      float* s = b_.scores + r * stride;
      mask_row(s, view_.table, group.row + first + r, part);
      if (!selects(select)) continue;
      const RowSelection selection{select, view_.table.keep.of(group.row + first + r), b_.aside, b_.room};
      const float threshold = selection.select(s, part);
      if (stats != nullptr) stats[r * stats_step + Transform::kStats] = threshold;
    }
    transform.weigh({b_.scores + part.begin, stride, part.size(), stats, stats_step}, rows, b_.factors);
    if (view_.problem.dropout > 0) {
      for (int64_t r = 0; r < rows; ++r) view_.dropout(group, tokens[r]).apply(b_.scores + r * stride, part);
    }
    if (terms_.any()) terms_.sum_weights(chunk, b_.scores, stride, b_.factors);
  }

  template <class Transform>
  void single(const Transform& transform, const RowGroup& group) {
    const TokenList tokens = view_.queries(group, 0);
    const ColumnPart part = hull_of(view_.table, group, 0, 1);
    pack_rows(queries_, tokens, 1, view_.width, b_.queries);
    SingleRow row{.query = b_.queries, .rows = keys_, .tokens = view_.keys(group), .width = view_.width};
    // The next row does not lie behind this one, so nothing is prefetched.
    if (row.tokens.places != nullptr || (group.given && view_.table.block == 1)) row.ahead = 0;
    score_single(row, group.columns, in_.scale, b_.scores);
    weigh(transform, group, 0, 1, part);
    row.rows = values_;
    const int64_t columns = std::min<int64_t>(part.end, group.columns);
    // A selection keeps few of many keys, and the values of the others are not read.
    const bool selects = view_.problem.spec.selects();
    if (!selects) mix_single<false>(row, columns, b_.scores, b_.factors[0], b_.out);
    if (selects || !all_finite(b_.out, view_.padded)) {
      mix_single<true>(row, columns, b_.scores, b_.factors[0], b_.out);
    }
    unpack_rows({b_.out, view_.padded, view_.width}, out_, tokens, 1);
  }

  void write_out(const RowGroup& group, const TokenList& tokens, int64_t rows, ColumnPart part) {
    const Target target = target_of(out_, tokens, view_.width, b_.out);
    const float *weights = b_.scores + part.begin, *values = b_.values + part.begin * view_.padded;
    const int64_t stride = score_stride(group.columns);
    const int64_t columns = std::min<int64_t>(part.end, group.columns) - part.begin;
    multiply({.a = weights,
              .a_row = stride,
              .b = values,
              .b_step = view_.padded,
              .c = target.data,
              .c_row = target.stride,
              .depth = columns,
              .factor = b_.factors,
              .factor_step = 1},
             rows, view_.padded / kLanes);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = target.data + r * target.stride;
      if (all_finite(row, view_.padded)) continue;
      mix_again(weights + r * stride, columns, values, view_.padded, b_.factors[r], row);
    }
    if (!target.direct) unpack_rows({target.data, target.stride, view_.width}, out_, tokens, rows);
  }

  const RowsTask& task_;
  HeadView view_;
  const AttentionForward& in_;
  HeadRows queries_, keys_, values_, out_;
  RowDots scores_;
  Arena arena_;
  ForwardBuffers b_;
  RowTerms terms_;
};

}  // namespace
}  // namespace fovea::kernels
