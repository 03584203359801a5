#pragma once
#include "fovea/kernels/attention/cpu/blocks_common-inl.h"

namespace fovea::kernels {
namespace {

struct BlocksBackwardBuffers {
  float *key_panels, *value_panels, *keys;  // of a block
  float *grad_keys, *grad_values;
  float *rows, *grad_queries;  // of gathered queries
  float *weights, *grads;      // scores, then weights; gradients of weights, then of scores
  float* slopes;               // of capped scores
};

inline BlocksBackwardBuffers blocks_backward_buffers(Arena& arena, const AttentionProblem& problem) {
  const int64_t width = problem.head_dim, padded = round_up(width, kLanes);
  return {.key_panels = arena.take(panel_floats(kBlocksColumns, width)),
          .value_panels = arena.take(panel_floats(kBlocksColumns, width)),
          .keys = arena.take(kBlocksColumns * padded),
          .grad_keys = arena.take(kBlocksColumns * padded),
          .grad_values = arena.take(kBlocksColumns * padded),
          .rows = arena.take(kBlockRows * floats_of_row(padded)),
          .grad_queries = arena.take(kBlockRows * padded),
          .weights = arena.take(kBlockRows * kBlockStride),
          .grads = arena.take(kBlockRows * kBlockStride),
          .slopes = arena.take(problem.spec.cap ? kBlockRows * kBlockStride : 0)};
}

// Packs the rows of a head's queries. d sink = -sum of w_sink dO . O over the queries, w_sink =
// exp(sink - maximum) / sum.
inline double begin_blocks_backward(const BlocksCall& call, const BlocksTask& task, float* scratch) {
  const AttentionBackward& in = *call.backward;
  const BlocksView view(call, task, task.head, in);
  Arena arena(scratch);
  const BlocksBackwardBuffers b = blocks_backward_buffers(arena, view.problem);
  const int64_t padded = view.padded;
  const HeadRows queries = view.rows(in.q, task.head), grad_out = view.rows(in.grad_out, task.head);
  const HeadRows saved{in.stats + view.stats_at(0) + 2, view.problem.num_heads * view.stats, Lane::kFloat};
  const bool has_saved = view.stats > 2;
  const HeadRows out = has_saved ? saved : view.rows(in.out, task.head);
  for (int64_t first = 0; first < view.sequence.q_length; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, view.sequence.q_length - first);
    pack_rows(out, has_saved ? TokenList{first, 1, nullptr} : view.query(first), rows, view.width, b.grad_queries);
    for (int64_t r = 0; r < rows; ++r) {
      const TokenList at = view.query(first + r);
      prefetch_row(queries, at[0] + kPackedAhead, view.width);
      prefetch_row(grad_out, at[0] + kPackedAhead, view.width);
      float* row = task.rows + (first + r) * floats_of_row(padded);
      pack_rows(queries, at, 1, view.width, row);
      pack_rows(grad_out, at, 1, view.width, row + padded);
      F dot = set(0);
      for (int64_t i = 0; i < padded; i += kLanes) {
        dot = fma(load(b.grad_queries + r * padded + i), load(row + padded + i), dot);
      }
      const float* stats = in.stats + view.stats_at(first + r);
      float* numbers = row + 2 * padded;
      numbers[0] = stats[0], numbers[1] = stats[1], numbers[2] = sum(dot);
    }
  }
  if (!std::holds_alternative<Sink>(view.problem.spec.transform)) return 0;
  const F sink = set(*sink_of(view.problem.spec.transform, in.alpha, task.head));
  double sum = 0;
  for (int64_t query = 0; query < view.sequence.q_length; ++query) {
    const float* numbers = task.rows + query * floats_of_row(padded) + 2 * padded;
    sum -= double{greatest(exp_below_one(sink - set(numbers[0]))) * numbers[1]} * numbers[2];
  }
  return sum;
}

// One head of a task: its scores are computed again, then dQ += dS K, dK += dS^T Q, dV += P^T dO.
class BlocksBackwardHead {
 public:
  // Head `index` of the task's.
  BlocksBackwardHead(const BlocksCall& call, const BlocksTask& task, int64_t index,
                     const BlocksBackwardBuffers& buffers)
      : view_(call, task, task.head + index, *call.backward),
        in_(*call.backward),
        scores_(view_.rows(in_.q, view_.head), view_.rows(in_.k, view_.key_head()), view_.width, Words::kFloats),
        weight_grads_(view_.rows(in_.grad_out, view_.head), view_.rows(in_.v, view_.key_head()), view_.width,
                      Words::kFloats),
        b_(buffers),
        sums_(task.sums + index * view_.sequence.q_length * view_.padded),
        row_floats_(floats_of_row(view_.padded)),
        rows_(task.rows + index * view_.sequence.q_length * row_floats_),
        places_(view_.problem, in_.grad_terms, view_.sequence),
        terms_(task.terms + index * places_.end) {}

  // The block's keys are packed: panels, and rows at `keys`.
  void add_rows(const GatheredBlock& block, const float* keys) const {
    const int64_t padded = view_.padded, vecs = padded / kLanes;
    for (int64_t r = 0; r < block.rows; ++r) {
      prefetch_gathered(block, r, rows_, row_floats_);
      copy_floats(rows_ + block.queries[r] * row_floats_, row_floats_, b_.rows + r * row_floats_);
    }
    scores_.multiply({b_.rows, row_floats_, b_.key_panels, b_.weights, kBlockStride, in_.scale}, block.rows,
                     block.part());
    weight_grads_.multiply({b_.rows + padded, row_floats_, b_.value_panels, b_.grads, kBlockStride, 1}, block.rows,
                           block.part());
    view_.finish_scores(block, in_.terms, b_.weights, b_.slopes);
    view_.mask(block, b_.grads, 0);
    for (int64_t r = 0; r < block.rows; ++r) find_gradients(block, r);
    static constexpr float kOne = 1;
    multiply({.a = b_.grads,
              .a_row = kBlockStride,
              .b = keys,
              .b_step = padded,
              .c = b_.grad_queries,
              .c_row = padded,
              .depth = block.columns,
              .factor = &in_.scale},
             block.rows, vecs);
    Product of_keys{.a = b_.grads,
                    .a_row = 1,
                    .a_step = kBlockStride,
                    .b = b_.rows,
                    .b_step = row_floats_,
                    .c = b_.grad_keys,
                    .c_row = padded,
                    .depth = block.rows,
                    .factor = &in_.scale,
                    .add = true};
    multiply(of_keys, block.columns, vecs);
    of_keys.a = b_.weights, of_keys.b = b_.rows + padded, of_keys.c = b_.grad_values, of_keys.factor = &kOne;
    multiply(of_keys, block.columns, vecs);
    for (int64_t r = 0; r < block.rows; ++r) {
      prefetch_gathered(block, r, sums_, padded);
      float* sum = sums_ + block.queries[r] * padded;
      for (int64_t i = 0; i < padded; i += kLanes)
        store(sum + i, load(sum + i) + load(b_.grad_queries + r * padded + i));
    }
  }
  void pack_keys(int64_t begin, int64_t columns) const {
    scores_.pack_right(view_.keys(begin), columns, b_.key_panels);
    weight_grads_.pack_right(view_.keys(begin), columns, b_.value_panels);
  }
  const BlocksView& view() const { return view_; }

 private:
  // Scores and gradients of weights become weights and gradients of scores.
  void find_gradients(const GatheredBlock& block, int64_t r) const {
    float *s = b_.weights + r * kBlockStride, *g = b_.grads + r * kBlockStride;
    const int64_t query = block.queries[r];
    const float* numbers = b_.rows + r * row_floats_ + 2 * view_.padded;
    const RowDropout dropout = view_.dropout(query, block.begin);
    if (dropout.threshold > 0) dropout.apply(g, block.part());
    backward_row(DenseSoftmax{}, s, g, block.part().end, {set(numbers[0]), set(numbers[1]), set(numbers[2])});
    if (dropout.threshold > 0) dropout.apply(s, block.part());
    if (places_.end > 0) add_term_gradients(block, r, g);
    if (view_.problem.spec.cap) multiply_row(g, b_.slopes + r * kBlockStride, block.part());
  }
  // g: the gradients of the scores of row r.
  void add_term_gradients(const GatheredBlock& block, int64_t r, const float* g) const {
    const ColumnRange columns = view_.columns_of(block, r);
    const ColumnOffsets offsets = view_.offsets_of(block, r);
    if (in_.grad_terms.by_head != nullptr)
      sum_by_offset(g, columns, offsets, places_.by_head_range, terms_ + places_.by_head);
    const OffsetRange& by_query = view_.problem.offsets.by_query;
    if (in_.grad_terms.by_query.data != nullptr)
      sum_by_offset(g, columns, offsets, by_query, terms_ + block.queries[r] * by_query.count);
  }

  const BlocksView view_;
  const AttentionBackward& in_;
  const RowDots scores_, weight_grads_;
  const BlocksBackwardBuffers& b_;
  float* sums_;  // dQ of the sequence's queries
  const int64_t row_floats_;
  const float* rows_;  // of the sequence's queries
  const BlocksTermSums places_;
  float* terms_;
};

// dK and dV of the task's blocks of keys under all heads that read them, head after head, and the shares of dQ.
class BlocksBackwardTask {
 public:
  BlocksBackwardTask(const BlocksCall& call, const BlocksTask& task, const BlockQueries* chosen, float* scratch)
      : call_(call),
        task_(task),
        chosen_(chosen),
        arena_(scratch),
        b_(blocks_backward_buffers(arena_, *call.problem)) {}

  void run() {
    const BlocksView view(call_, task_, task_.head, *call_.backward);
    fill(task_.sums, 0, task_.heads * view.sequence.q_length * view.padded, 0);
    const BlocksTermSums places(view.problem, call_.backward->grad_terms, view.sequence);
    std::fill_n(task_.terms, task_.heads * places.end, 0.0F);
    for (int64_t block = task_.begin; block < task_.end; ++block) {
      each_part(view, block, [&](int64_t begin, int64_t columns) { add_part(view, block, begin, columns); });
    }
  }

 private:
  void add_part(const BlocksView& view, int64_t block, int64_t begin, int64_t columns) {
    const int64_t padded = view.padded;
    fill(b_.grad_keys, 0, columns * padded, 0);
    fill(b_.grad_values, 0, columns * padded, 0);
    const AttentionBackward& in = *call_.backward;
    const TokenList at = view.keys(begin);
    const float* keys = packed_rows(view.rows(in.k, view.key_head()), at, columns, view.width, b_.keys);
    bool is_packed = false;
    for (int64_t h = 0; h < task_.heads; ++h) {
      const int64_t count = chosen_[h].count(block);
      if (count == 0) continue;
      const BlocksBackwardHead head(call_, task_, h, b_);
      if (!is_packed) head.pack_keys(begin, columns);
      is_packed = true;
      for (int64_t first = 0; first < count; first += kBlockRows) {
        head.add_rows({chosen_[h].of(block) + first, std::min(kBlockRows, count - first), begin, columns}, keys);
      }
    }
    const auto put = [&](const float* from, const Rows<void>& to) {
      unpack_rows({from, padded, view.width}, head_rows(to, view.key_head(), view.problem.dtype), at, columns);
    };
    put(b_.grad_keys, in.grad_k), put(b_.grad_values, in.grad_v);
  }

  const BlocksCall& call_;
  const BlocksTask& task_;
  const BlockQueries* chosen_;
  Arena arena_;
  const BlocksBackwardBuffers b_;
};

}  // namespace
}  // namespace fovea::kernels
