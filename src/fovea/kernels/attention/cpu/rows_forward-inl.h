#pragma once
#include "fovea/kernels/attention/cpu/rows-inl.h"

namespace fovea::kernels {
namespace {

struct ForwardBuffers {
  float *keys, *values;  // panels of keys; rows of values
  float *scores, *queries, *out, *factors, *aside;
};

inline ForwardBuffers forward_buffers(Arena& arena, const AttentionProblem& problem, const RowsTask& task) {
  const int64_t n = problem.sequences[static_cast<size_t>(task.sequence)].k_length, d = problem.head_dim;
  const int64_t padded = round_up(d, kLanes);
  // Narrow windows take more rows at a time than n would allow.
  const int64_t rows = std::min<int64_t>(task.q_count, 48);
  const int64_t scores = std::min(rows * score_stride(n), std::max<int64_t>(4096, 12 * score_stride(n)) + 48 * 16);
  return {.keys = arena.take(panel_floats(n + kLanes, d)),
          .values = arena.take((n + kLanes) * padded),
          .scores = arena.take(scores),
          .queries = arena.take(rows * padded),
          .out = arena.take(rows * padded),
          .factors = arena.take(rows),
          .aside = arena.take(score_stride(n))};
}

class ForwardTask {
 public:
  ForwardTask(const RowsCall& call, const RowsTask& task, float* scratch)
      : problem_(*call.problem),
        in_(*call.forward),
        task_(task),
        sequence_(problem_.sequences[static_cast<size_t>(task.sequence)]),
        table_(call.tables->of(task.sequence, task.head)),
        window_(window_of(table_, task.q_first, task.q_count)),
        width_(problem_.head_dim),
        padded_(round_up(width_, kLanes)),
        stride_(score_stride(window_.size())) {
    Arena arena(scratch);
    buffers_ = forward_buffers(arena, problem_, task);
    queries_ = head_rows(in_.q, task.head, problem_.dtype);
    out_ = head_rows(in_.out, task.head, problem_.dtype);
    stats_width_ = stats_width(problem_);
  }

  template <class Transform>
  void run(const Transform& transform) {
    const int64_t first_key = sequence_.k_begin + window_.begin;
    pack_panels(head_rows(in_.k, task_.head, problem_.dtype), first_key, window_.size(), width_, buffers_.keys);
    pack_rows(head_rows(in_.v, task_.head, problem_.dtype), first_key, window_.size(), width_, buffers_.values);
    const int64_t step = chunk_rows(task_.q_count, window_.size());
    for (int64_t i = 0; i < task_.q_count; i += step) {
      chunk(transform, task_.q_first + i, std::min(step, task_.q_count - i));
    }
  }

 private:
  template <class Transform>
  void chunk(const Transform& transform, int64_t first, int64_t rows) {
    const KeyWindow hull = window_of(table_, first, rows);
    const RowPart part = {hull.begin - window_.begin, hull.begin - window_.begin + hull.padded()};
    const float* a = static_cast<const float*>(queries_.data) + (sequence_.q_begin + first) * queries_.stride;
    int64_t a_row = queries_.stride;
    if (queries_.bf16) {
      pack_rows(queries_, sequence_.q_begin + first, rows, width_, buffers_.queries);
      a = buffers_.queries;
      a_row = padded_;
    }
    if (hull.size() > 0) {
      multiply_panels({a, a_row, buffers_.keys, width_, buffers_.scores, stride_, &in_.scale}, rows, part);
    }
    for (int64_t r = 0; r < rows; ++r) weigh_row(transform, first + r, part, r);
    write_out(first, rows, part.begin, hull.size());
  }

  template <class Transform>
  void weigh_row(const Transform& transform, int64_t query, RowPart all, int64_t r) {
    float* s = buffers_.scores + r * stride_;
    const RowPart part = mask_row(s, table_, query, window_);
    const int64_t token = sequence_.q_begin + query;
    float* stats =
        in_.stats == nullptr ? nullptr : in_.stats + (token * problem_.num_heads + task_.head) * stats_width_;
    if (problem_.spec.select) {
      const RowSelection selection{problem_.spec.select->k, &table_, window_.begin, buffers_.aside};
      const float threshold = selection.select(s, part, query);
      if (stats != nullptr) stats[Transform::kStats] = threshold;
    }
    buffers_.factors[r] = transform.weigh(s + part.begin, part.size(), stats);
    RowDropout dropout = row_dropout(problem_, in_.random, task_.head, token);
    if (dropout.threshold != 0) {
      dropout.position = window_.begin + part.begin;
      dropout.apply(s + part.begin, part.size());
    }
    const int64_t begin = part.size() > 0 ? part.begin : all.end;
    fill(s, all.begin, begin, 0);
    fill(s, std::max(part.end, begin), all.end, 0);
  }

  void write_out(int64_t first, int64_t rows, int64_t key, int64_t keys) {
    const bool direct = !out_.bf16 && width_ % kLanes == 0;
    float* c = buffers_.out;
    if (direct) {
      c = static_cast<float*>(const_cast<void*>(out_.data)) + (sequence_.q_begin + first) * out_.stride;
    }
    const int64_t c_row = direct ? out_.stride : padded_;
    multiply({.a = buffers_.scores + key,
              .a_row = stride_,
              .b = buffers_.values + key * padded_,
              .b_step = padded_,
              .c = c,
              .c_row = c_row,
              .depth = keys,
              .factor = buffers_.factors,
              .factor_step = 1},
             rows, padded_ / kLanes);
    if (!direct) unpack_rows(c, c_row, out_, sequence_.q_begin + first, rows, width_);
  }

  const AttentionProblem& problem_;
  const AttentionForward& in_;
  const RowsTask& task_;
  const Sequence& sequence_;
  const Candidates& table_;
  KeyWindow window_;
  int64_t width_, padded_, stride_, stats_width_ = 0;
  HeadRows queries_, out_;
  ForwardBuffers buffers_{};
};

}  // namespace
}  // namespace fovea::kernels
