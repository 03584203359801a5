#pragma once
#include "fovea/kernels/attention/cpu/row_dots-inl.h"
#include "fovea/kernels/attention/cpu/rows_offsets-inl.h"
#include "fovea/kernels/attention/cpu/rows_single-inl.h"

namespace fovea::kernels {
namespace {

struct BackwardBuffers {
  float *key_panels, *value_panels, *keys;   // of the group
  float *queries, *grad_out, *grad_queries;  // of the chunk
  float* left;                               // of one of its products with panels, where that goes in bfloat16
  float *weights, *grads;                    // scores, then weights; gradients of weights, then of scores
  float *grad_keys, *grad_values;            // of the group's columns
  float *all_grad_keys, *all_grad_values;    // of the task's keys, where more than one group adds to them
  float* slopes;                             // of capped scores
  float* aside;
  float* list;  // int32: HeadView::room
};

// Whether the task's one group covers the keys it touches in order, so that its sums are the result.
inline bool owns_keys(const Candidates& table, const RowsTask& task) {
  const RowGroup& group = table.groups[static_cast<size_t>(task.group_begin)];
  return task.parts == 1 && task.group_end - task.group_begin == 1 && group.key_step == 1 && group.list_at < 0;
}

inline BackwardBuffers backward_buffers(Arena& arena, const Candidates& table, const RowsTask& task, HeadShape shape,
                                        bool is_capped) {
  const TaskSize size = size_of(table, task);
  const int64_t padded = round_up(shape.width, kLanes);
  const bool sums = task.parts == 1 && !owns_keys(table, task);
  return {.key_panels = arena.take(panel_floats(size.gathered, shape.width)),
          .value_panels = arena.take(panel_floats(size.gathered, shape.width)),
          .keys = arena.take(size.gathered * padded),
          .queries = arena.take(size.rows * padded),
          .grad_out = arena.take(size.rows * padded),
          .grad_queries = arena.take(size.rows * padded),
          .left = arena.take(size.rows * padded),
          .weights = arena.take(size.scores),
          .grads = arena.take(size.scores),
          .grad_keys = arena.take(size.gathered * padded),
          .grad_values = arena.take(size.gathered * padded),
          .all_grad_keys = arena.take(sums ? shape.keys * padded : 0),
          .all_grad_values = arena.take(sums ? shape.keys * padded : 0),
          .slopes = arena.take(is_capped ? size.scores : 0),
          .aside = arena.take(std::max(score_stride(size.columns), padded)),
          .list = arena.take(size.listed)};
}

// Recomputes the scores of a block of queries, turns them and dO V^T into weights and score gradients row by row, and
// multiplies: dQ = dS K, dK += dS^T Q, dV += P^T dO. dK and dV belong to the task's chain alone.
class BackwardTask {
 public:
  BackwardTask(const RowsCall& call, int64_t index, float* scratch)
      : task_(call.tasks[static_cast<size_t>(index)]),
        view_(call, task_, *call.backward),
        in_(*call.backward),
        arena_(scratch),
        b_(backward_buffers(arena_, view_.table, task_, {view_.width, view_.sequence.k_length},
                            view_.problem.spec.cap.has_value())),
        terms_(view_, in_.terms, product_buffers(arena_, call, task_), in_.scale),
        shared_(call.shared_terms->of(index)) {
    const DType dtype = view_.problem.dtype;
    view_.room = reinterpret_cast<int32_t*>(b_.list);
    queries_ = head_rows(in_.q, task_.head, dtype);
    keys_ = head_rows(in_.k, view_.key_head(), dtype);
    grad_out_ = head_rows(in_.grad_out, task_.head, dtype);
    scores_ = RowDots(queries_, keys_, view_.width, view_.words(call.bf16->scores));
    values_ = head_rows(in_.v, view_.key_head(), dtype);
    weight_grads_ = RowDots(grad_out_, values_, view_.width, view_.words(call.bf16->weight_grads));
    grad_q_ = head_rows(in_.grad_q, task_.head, dtype);
    owns_ = owns_keys(view_.table, task_);
    if (task_.parts > 1) {
      b_.all_grad_keys = call.sums.keys(index);
      b_.all_grad_values = b_.all_grad_keys + all_keys() * view_.padded;
    }
  }

  template <class Transform>
  void run(Transform& transform) {
    if (shared_.by_head != nullptr) std::fill_n(shared_.by_head, shared_.by_head_range.count, 0.0F);
    if (shared_.rows != nullptr) std::fill_n(shared_.rows, shared_.rows_range.count * view_.padded, 0.0F);
    if (!owns_ && task_.link == 0) {  // the other links of a chain add to these
      fill(b_.all_grad_keys, 0, all_keys() * view_.padded, 0);
      fill(b_.all_grad_values, 0, all_keys() * view_.padded, 0);
    }
    for (int64_t g = task_.group_begin; g < task_.group_end; ++g) {
      const RowGroup& group = view_.table.groups[static_cast<size_t>(g)];
      view_.begin_group(group);
      if (group.given) {
        single(transform, group);
        continue;
      }
      run_group(transform, group);
      if (!owns_) {
        scatter(group, b_.grad_keys, b_.all_grad_keys);
        scatter(group, b_.grad_values, b_.all_grad_values);
      }
    }
    if (task_.parts > 1) return;
    const RowGroup& group = view_.table.groups[static_cast<size_t>(task_.group_begin)];
    const int64_t first = owns_ ? group.key_begin : 0, count = owns_ ? group.columns : view_.sequence.k_length;
    write_keys(head_rows(in_.grad_k, view_.key_head(), view_.problem.dtype), owns_ ? b_.grad_keys : b_.all_grad_keys,
               first, count);
    write_keys(head_rows(in_.grad_v, view_.key_head(), view_.problem.dtype),
               owns_ ? b_.grad_values : b_.all_grad_values, first, count);
  }

 private:
  // The keys of all_grad_keys.
  int64_t all_keys() const { return task_.parts > 1 ? task_.keys_end - task_.keys_begin : view_.sequence.k_length; }

  template <class Transform>
  void run_group(Transform& transform, const RowGroup& group) {
    const TokenList keys = view_.keys(group);
    if (terms_.any()) terms_.begin_group(group);
    scores_.pack_right(keys, group.columns, b_.key_panels);
    weight_grads_.pack_right(keys, group.columns, b_.value_panels);
    pack_rows(keys_, keys, group.columns, view_.width, b_.keys);
    fill(b_.grad_keys, 0, group.columns * view_.padded, 0);
    fill(b_.grad_values, 0, group.columns * view_.padded, 0);
    const int64_t step = chunk_rows(group.queries, group.columns);
    for (int64_t i = 0; i < group.queries; i += step) {
      chunk(transform, group, i, std::min<int64_t>(step, group.queries - i));
    }
  }

  template <class Transform>
  void chunk(Transform& transform, const RowGroup& group, int64_t first, int64_t rows) {
    const ColumnPart part = hull_of(view_.table, group, first, rows);
    const TokenList tokens = view_.queries(group, first);
    const int64_t stride = score_stride(group.columns), padded = view_.padded;
    pack_rows(queries_, tokens, rows, view_.width, b_.queries);
    pack_rows(grad_out_, tokens, rows, view_.width, b_.grad_out);
    const float one = 1;
    if (group.queries == 1) {  // as forward did: a selection must see the same bits
      score_single({b_.queries, keys_, view_.keys(group), view_.width}, group.columns, in_.scale, b_.weights);
    } else {
      const float* left = scores_.left(tokens, rows, b_.queries, b_.left);
      scores_.multiply({left, scores_.stride(), b_.key_panels, b_.weights, stride, in_.scale}, rows, part);
    }
    const float* left = weight_grads_.left(tokens, rows, b_.grad_out, b_.left);
    weight_grads_.multiply({left, weight_grads_.stride(), b_.value_panels, b_.grads, stride}, rows, part);
    backward_scores(transform, group, first, rows, part);
    const int64_t columns = std::min<int64_t>(part.end, group.columns) - part.begin;
    write_queries(group, tokens, rows, {part.begin, part.begin + columns});
    Product product = {.a = b_.grads + part.begin,
                       .a_row = 1,
                       .a_step = stride,
                       .b = b_.queries,
                       .b_step = padded,
                       .c = b_.grad_keys + part.begin * padded,
                       .c_row = padded,
                       .depth = rows,
                       .factor = &in_.scale,
                       .add = true};
    multiply(product, columns, padded / kLanes);
    product.a = b_.weights + part.begin;
    product.b = b_.grad_out;
    product.c = b_.grad_values + part.begin * padded;
    product.factor = &one;
    multiply(product, columns, padded / kLanes);
  }

  // A query whose list came with the call. Nothing is packed, and its parts of keys' gradients are added to their sums.
  template <class Transform>
  void single(Transform& transform, const RowGroup& group) {
    if (terms_.any()) terms_.begin_group(group);
    const ColumnPart part = hull_of(view_.table, group, 0, 1);
    const TokenList tokens = view_.queries(group, 0);
    pack_rows(queries_, tokens, 1, view_.width, b_.queries);
    pack_rows(grad_out_, tokens, 1, view_.width, b_.grad_out);
    SingleRow row{.query = b_.queries, .rows = keys_, .tokens = view_.keys(group), .width = view_.width};
    if (view_.table.block == 1) row.ahead = 0;
    score_single(row, group.columns, in_.scale, b_.weights);
    row.query = b_.grad_out, row.rows = values_;
    score_single(row, group.columns, 1, b_.grads);
    fill(b_.grads, group.columns, part.end, 0);  // rubbish times a weight of zero may be no number
    backward_scores(transform, group, 0, 1, part);
    const int64_t columns = std::min<int64_t>(part.end, group.columns);
    const Target target = target_of(grad_q_, tokens, view_.width, b_.grad_queries);
    row.rows = keys_;
    mix_single<false>(row, columns, b_.grads, in_.scale, target.data);
    if (!target.direct) unpack_rows({target.data, target.stride, view_.width}, grad_q_, tokens, 1);
    add_to_keys(group, columns);
  }

  // Adds what the query at b_.queries, of gradient b_.grad_out, gives to the sums of its keys.
  void add_to_keys(const RowGroup& group, int64_t columns) const {
    const int32_t* list = view_.list(group);
    for (int64_t c = 0; c < columns; ++c) {
      const float weight = b_.weights[c], grad = b_.grads[c] * in_.scale;
      if (weight == 0 && grad == 0) continue;  // most columns, behind a selection
      const int64_t at = (list[c] - task_.keys_begin) * view_.padded;
      const F of_key = set(grad), of_value = set(weight);
      float *keys = b_.all_grad_keys + at, *values = b_.all_grad_values + at;
      for (int64_t i = 0; i < view_.padded; i += kLanes) {
        store(keys + i, fma(of_key, load(b_.queries + i), load(keys + i)));
        store(values + i, fma(of_value, load(b_.grad_out + i), load(values + i)));
      }
    }
  }

  // Scores and gradients of weights to weights and gradients of scores.
  template <class Transform>
  void backward_scores(Transform& transform, const RowGroup& group, int64_t first, int64_t rows, ColumnPart part) {
    const TokenList tokens = view_.queries(group, first);
    const int64_t stride = score_stride(group.columns);
    const Selection& select = view_.problem.spec.selection;
    const int64_t stats_step = group.query_step * view_.problem.num_heads * view_.stats;
    const float* stats = view_.stats == 0 ? nullptr : in_.stats + view_.stats_of(tokens[0]);
    const bool drops = view_.problem.dropout > 0;
    const RowChunk chunk = {group, first, rows, part};
    const auto& cap = view_.problem.spec.cap;
    for (int64_t r = 0; cap && r < rows; ++r) {
      cap_row(SoftCap(cap->cap), b_.weights + r * stride, part, b_.slopes + r * stride);
    }
    if (terms_.any()) {
      terms_.add(chunk, b_.weights, stride);
      terms_.add_sum_gradients(chunk, in_.grad_terms, b_.grads, stride);
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* s = b_.weights + r * stride;
      mask_row(s, view_.table, group.row + first + r, part);
      if (drops) view_.dropout(group, tokens[r]).apply(b_.grads + r * stride, part);
      if (!selects(select)) continue;
      const RowSelection selection{select, view_.table.keep.of(group.row + first + r), b_.aside, nullptr};
      selection.drop(s, part, stats[r * stats_step + Transform::kStats]);
    }
    transform.gradient({b_.weights + part.begin, stride, part.size(), stats, stats_step}, rows, b_.grads + part.begin);
    if (terms_.any()) terms_.add_gradients(chunk, in_.grad_terms, shared_, b_.grads, stride);
    for (int64_t r = 0; cap && r < rows; ++r) multiply_row(b_.grads + r * stride, b_.slopes + r * stride, part);
    for (int64_t r = 0; drops && r < rows; ++r) {
      view_.dropout(group, tokens[r]).apply(b_.weights + r * stride, part);
    }
  }

  void write_queries(const RowGroup& group, const TokenList& tokens, int64_t rows, ColumnPart part) {
    const Target target = target_of(grad_q_, tokens, view_.width, b_.grad_queries);
    multiply({.a = b_.grads + part.begin,
              .a_row = score_stride(group.columns),
              .b = b_.keys + part.begin * view_.padded,
              .b_step = view_.padded,
              .c = target.data,
              .c_row = target.stride,
              .depth = part.size(),
              .factor = &in_.scale},
             rows, view_.padded / kLanes);
    if (!target.direct) unpack_rows({target.data, target.stride, view_.width}, grad_q_, tokens, rows);
  }

  // Adds the sums of the group's columns to those of the task's keys.
  void scatter(const RowGroup& group, const float* from, float* to) const {
    const int32_t* list = view_.list(group);
    for (int64_t c = 0; c < group.columns; ++c, from += view_.padded) {
      const int64_t key = list == nullptr ? group.key_begin + c * group.key_step : list[c];
      float* row = to + (key - task_.keys_begin) * view_.padded;
      for (int64_t i = 0; i < view_.padded; i += kLanes) store(row + i, load(row + i) + load(from + i));
    }
  }

  // Sums of keys [first, first + count), and zeros for the sequence's other keys.
  void write_keys(const HeadRows& out, const float* sums, int64_t first, int64_t count) {
    const int64_t token = view_.sequence.k_begin, end = first + count;
    fill(b_.aside, 0, view_.padded, 0);
    const PackedRows zeros = {b_.aside, 0, view_.width};
    unpack_rows(zeros, out, {token, 1, nullptr}, first);
    unpack_rows({sums, view_.padded, view_.width}, out, {token + first, 1, nullptr}, count);
    unpack_rows(zeros, out, {token + end, 1, nullptr}, view_.sequence.k_length - end);
  }

  const RowsTask& task_;
  HeadView view_;
  const AttentionBackward& in_;
  HeadRows queries_, keys_, values_, grad_out_, grad_q_;
  RowDots scores_, weight_grads_;
  bool owns_ = false;
  Arena arena_;
  BackwardBuffers b_;
  RowTerms terms_;
  SharedTermSums shared_;
};

}  // namespace
}  // namespace fovea::kernels
