#pragma once
#include "fovea/kernels/attention/cpu/rows-inl.h"

namespace fovea::kernels {
namespace {

struct BackwardBuffers {
  float *key_panels, *value_panels, *keys;  // of the window
  float *queries, *grad_out;                // rows of the chunk
  float *weights, *grads;                   // scores, then weights; gradients of weights, then of scores
  float *grad_queries, *grad_keys, *grad_values;
  float* aside;
};

inline BackwardBuffers backward_buffers(Arena& arena, const AttentionProblem& problem, const RowsTask& task) {
  const int64_t n = problem.sequences[static_cast<size_t>(task.sequence)].k_length, d = problem.head_dim;
  const int64_t padded = round_up(d, kLanes);
  const int64_t rows = std::min<int64_t>(task.q_count, 48);
  const int64_t scores = std::min(rows * score_stride(n), std::max<int64_t>(4096, 12 * score_stride(n)) + 48 * 16);
  return {.key_panels = arena.take(panel_floats(n + kLanes, d)),
          .value_panels = arena.take(panel_floats(n + kLanes, d)),
          .keys = arena.take((n + kLanes) * padded),
          .queries = arena.take(rows * padded),
          .grad_out = arena.take(rows * padded),
          .weights = arena.take(scores),
          .grads = arena.take(scores),
          .grad_queries = arena.take(rows * padded),
          .grad_keys = arena.take((n + kLanes) * padded),
          .grad_values = arena.take((n + kLanes) * padded),
          .aside = arena.take(score_stride(n))};
}

// Recomputes the scores of a block of queries, turns them and dO V^T into weights and score gradients row by row, and
// multiplies: dQ = dS K, dK += dS^T Q, dV += P^T dO. dK and dV belong to this task alone.
class BackwardTask {
 public:
  BackwardTask(const RowsCall& call, const RowsTask& task, int64_t index, float* scratch)
      : problem_(*call.problem),
        in_(*call.backward),
        task_(task),
        sequence_(problem_.sequences[static_cast<size_t>(task.sequence)]),
        table_(call.tables->of(task.sequence, task.head)),
        window_(window_of(table_, task.q_first, task.q_count)),
        width_(problem_.head_dim),
        padded_(round_up(width_, kLanes)),
        stride_(score_stride(window_.size())),
        stats_width_(stats_width(problem_)) {
    Arena arena(scratch);
    b_ = backward_buffers(arena, problem_, task);
    queries_ = head_rows(in_.q, task.head, problem_.dtype);
    grad_out_ = head_rows(in_.grad_out, task.head, problem_.dtype);
    grad_q_ = head_rows(in_.grad_q, task.head, problem_.dtype);
    if (task.parts > 1) partial_ = call.partials + call.partial_at[static_cast<size_t>(index)];
  }

  template <class Transform>
  void run(Transform& transform) {
    const int64_t first_key = sequence_.k_begin + window_.begin;
    const HeadRows keys = head_rows(in_.k, task_.head, problem_.dtype);
    pack_panels(keys, first_key, window_.size(), width_, b_.key_panels);
    pack_panels(head_rows(in_.v, task_.head, problem_.dtype), first_key, window_.size(), width_, b_.value_panels);
    pack_rows(keys, first_key, window_.size(), width_, b_.keys);
    // Partial sums span all keys of the sequence, so that they can be added whatever each part's window was.
    const int64_t all = (partial_ == nullptr ? window_.size() : sequence_.k_length) * padded_;
    grad_keys_ = partial_ == nullptr ? b_.grad_keys : partial_;
    grad_values_ = partial_ == nullptr ? b_.grad_values : partial_ + all;
    fill(grad_keys_, 0, all, 0);
    fill(grad_values_, 0, all, 0);
    if (partial_ != nullptr) {
      grad_keys_ += window_.begin * padded_;
      grad_values_ += window_.begin * padded_;
    }
    const int64_t step = chunk_rows(task_.q_count, window_.size());
    for (int64_t i = 0; i < task_.q_count; i += step) {
      chunk(transform, task_.q_first + i, std::min(step, task_.q_count - i));
    }
    if (partial_ == nullptr) {
      write_keys(head_rows(in_.grad_k, task_.head, problem_.dtype), grad_keys_);
      write_keys(head_rows(in_.grad_v, task_.head, problem_.dtype), grad_values_);
    }
  }

 private:
  template <class Transform>
  void chunk(Transform& transform, int64_t first, int64_t rows) {
    const KeyWindow hull = window_of(table_, first, rows);
    const RowPart part = {hull.begin - window_.begin, hull.begin - window_.begin + hull.padded()};
    pack_rows(queries_, sequence_.q_begin + first, rows, width_, b_.queries);
    pack_rows(grad_out_, sequence_.q_begin + first, rows, width_, b_.grad_out);
    const float one = 1;
    if (hull.size() > 0) {
      multiply_panels({b_.queries, padded_, b_.key_panels, width_, b_.weights, stride_, &in_.scale}, rows, part);
      multiply_panels({b_.grad_out, padded_, b_.value_panels, width_, b_.grads, stride_, &one}, rows, part);
    }
    for (int64_t r = 0; r < rows; ++r) grade_row(transform, first + r, part, r);
    write_queries(first, rows, part.begin, hull.size());
    if (hull.size() == 0) return;
    Product product = {.a = b_.grads + part.begin,
                       .a_row = 1,
                       .a_step = stride_,
                       .b = b_.queries,
                       .b_step = padded_,
                       .c = grad_keys_ + part.begin * padded_,
                       .c_row = padded_,
                       .depth = rows,
                       .factor = &in_.scale,
                       .add = true};
    multiply(product, hull.size(), padded_ / kLanes);
    product.a = b_.weights + part.begin;
    product.b = b_.grad_out;
    product.c = grad_values_ + part.begin * padded_;
    product.factor = &one;
    multiply(product, hull.size(), padded_ / kLanes);
  }

  template <class Transform>
  void grade_row(Transform& transform, int64_t query, RowPart all, int64_t r) {
    float* s = b_.weights + r * stride_;
    float* g = b_.grads + r * stride_;
    const RowPart part = mask_row(s, table_, query, window_);
    const int64_t token = sequence_.q_begin + query;
    const float* stats =
        stats_width_ == 0 ? nullptr : in_.stats + (token * problem_.num_heads + task_.head) * stats_width_;
    if (problem_.spec.select) {
      const RowSelection selection{problem_.spec.select->k, &table_, window_.begin, b_.aside};
      selection.drop(s, part, query, stats[Transform::kStats]);
    }
    RowDropout dropout = row_dropout(problem_, in_.random, task_.head, token);
    dropout.position = window_.begin + part.begin;
    if (dropout.threshold != 0) dropout.apply(g + part.begin, part.size());
    transform.gradient(s + part.begin, g + part.begin, part.size(), stats);
    if (dropout.threshold != 0) dropout.apply(s + part.begin, part.size());
    const int64_t begin = part.size() > 0 ? part.begin : all.end;
    for (float* row : {s, g}) {
      fill(row, all.begin, begin, 0);
      fill(row, std::max(part.end, begin), all.end, 0);
    }
  }

  void write_queries(int64_t first, int64_t rows, int64_t key, int64_t keys) {
    const bool direct = !grad_q_.bf16 && width_ % kLanes == 0;
    float* c = b_.grad_queries;
    if (direct) {
      c = static_cast<float*>(const_cast<void*>(grad_q_.data)) + (sequence_.q_begin + first) * grad_q_.stride;
    }
    const int64_t c_row = direct ? grad_q_.stride : padded_;
    multiply({.a = b_.grads + key,
              .a_row = stride_,
              .b = b_.keys + key * padded_,
              .b_step = padded_,
              .c = c,
              .c_row = c_row,
              .depth = keys,
              .factor = &in_.scale},
             rows, padded_ / kLanes);
    if (!direct) unpack_rows(c, c_row, grad_q_, sequence_.q_begin + first, rows, width_);
  }

  // The window's sums, and zeros for the sequence's keys outside it.
  void write_keys(const HeadRows& out, const float* sums) {
    float* zeros = b_.queries;
    fill(zeros, 0, padded_, 0);
    unpack_rows(zeros, 0, out, sequence_.k_begin, window_.begin, width_);
    unpack_rows(sums, padded_, out, sequence_.k_begin + window_.begin, window_.size(), width_);
    unpack_rows(zeros, 0, out, sequence_.k_begin + window_.end, sequence_.k_length - window_.end, width_);
  }

  const AttentionProblem& problem_;
  const AttentionBackward& in_;
  const RowsTask& task_;
  const Sequence& sequence_;
  const Candidates& table_;
  KeyWindow window_;
  int64_t width_, padded_, stride_, stats_width_;
  HeadRows queries_, grad_out_, grad_q_;
  float *partial_ = nullptr, *grad_keys_ = nullptr, *grad_values_ = nullptr;
  BackwardBuffers b_{};
};

}  // namespace
}  // namespace fovea::kernels
