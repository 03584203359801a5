#pragma once
#include "fovea/kernels/attention/cpu/dense_offsets-inl.h"
#include "fovea/kernels/attention/cpu/dense_seen-inl.h"
#if defined(FOVEA_TILES)
#include "fovea/kernels/attention/cpu/dense_tiles-inl.h"
#endif

namespace fovea::kernels {
namespace {

struct DenseBackwardBuffers {
  float *key_panels, *value_panels, *keys;  // of a block of keys
  float *grad_keys, *grad_values;
  float *queries, *grad_out;  // of packed_queries() queries
  float* left;                // a block's left side in bfloat16; in find_dots() its outputs
  float *weights, *grads;     // scores, then weights; gradients of weights, then of scores
  float* slopes;              // of a block's capped scores
  float* dots;                // dO . O of all queries
  float* grad_queries;        // of all queries: QuerySums
#if defined(FOVEA_TILES)
  DenseBackwardTiles tiles;
#endif
};

// A task packs the queries of a sequence up to this length once, not for each block of keys again.
constexpr int64_t kHeldQueries = 1024;
constexpr int64_t packed_queries(int64_t q_length) { return q_length <= kHeldQueries ? q_length : kBlockRows; }

inline DenseBackwardBuffers dense_backward_buffers(Arena& arena, const DenseCall& call, const DenseTask& task) {
  const int64_t width = call.problem->head_dim;
  const int64_t padded = round_up(width, kLanes), queries = task.sequence->q_length;
  return {
    .key_panels = arena.take(panel_floats(kBlockColumns, width)),
    .value_panels = arena.take(panel_floats(kBlockColumns, width)), .keys = arena.take(kBlockColumns * padded),
    .grad_keys = arena.take(kBlockColumns * padded), .grad_values = arena.take(kBlockColumns * padded),
    .queries = arena.take(packed_queries(queries) * padded), .grad_out = arena.take(packed_queries(queries) * padded),
    .left = arena.take(kBlockRows * padded), .weights = arena.take(kBlockRows * kBlockStride),
    .grads = arena.take(kBlockRows * kBlockStride),
    .slopes = arena.take(call.problem->spec.cap ? kBlockRows * kBlockStride : 0), .dots = arena.take(queries),
    .grad_queries =
        arena.take(task.parts == 1 ? QuerySums(*call.problem, call.backward->grad_terms, queries, padded).end : 0),
#if defined(FOVEA_TILES)
    .tiles = DenseBackwardTiles(arena, queries, width)
#endif
  };
}

// Recomputes the scores of each block and multiplies: dQ += dS K, dK += dS^T Q, dV += P^T dO. dK and dV of the task's
// keys are its chain's own.
class DenseBackwardTask {
 public:
  DenseBackwardTask(const DenseCall& call, int64_t index, float* scratch)
      : task_(call.tasks[static_cast<size_t>(index)]),
        view_(call, task_, *call.backward),
        in_(*call.backward),
        tiled_(call.tiled->of(view_.index(), task_.head)),
        arena_(scratch),
        b_(dense_backward_buffers(arena_, call, task_)),
        terms_(view_, in_.terms, window_buffers(arena_, call), in_.scale),
        shared_(call.shared_terms->of(index)),
        sink_grad_(call.grad_alpha == nullptr ? nullptr : call.grad_alpha + index) {
    if (view_.problem.keys.any()) key_sums_ = call.sums.keys(index);
    if (task_.parts > 1) b_.grad_queries = call.sums.own(index);
    const QuerySums places = query_sums();
    if (in_.grad_terms.queries.data != nullptr) sums_.queries = b_.grad_queries + places.queries;
    if (in_.grad_terms.by_query.data != nullptr) sums_.by_query = b_.grad_queries + places.by_query;
    const DType dtype = view_.problem.dtype;
    queries_ = head_rows(in_.q, task_.head, dtype);
    keys_ = head_rows(in_.k, view_.key_head(), dtype);
    grad_out_ = head_rows(in_.grad_out, task_.head, dtype);
    scores_ = RowDots(queries_, keys_, view_.width, view_.words(call.bf16->scores));
    weight_grads_ = RowDots(grad_out_, head_rows(in_.v, view_.key_head(), dtype), view_.width,
                            view_.words(call.bf16->weight_grads));
    grad_queries_ = task_.parts > 1 ? b_.grad_queries : target_of(in_.grad_q, view_.queries(0), b_.grad_queries);
    query_rows_ = held(queries_, b_.queries), grad_rows_ = held(grad_out_, b_.grad_out);
#if defined(FOVEA_TILES)
    if (!tiled_) return;
    b_.tiles.begin({queries_, keys_, head_rows(in_.v, view_.key_head(), dtype), grad_out_}, view_.queries(0),
                   view_.sequence.q_length, in_.scale);
#endif
  }

  template <class Transform>
  void run(const Transform& transform) {
    if (grad_queries_ != b_.grad_queries) fill(grad_queries_, 0, view_.sequence.q_length * view_.padded, 0);
    fill(b_.grad_queries, grad_queries_ == b_.grad_queries ? 0 : query_sums().queries, query_sums().end, 0);
    if (shared_.by_head != nullptr) std::fill_n(shared_.by_head, shared_.by_head_range.count, 0.0F);
    if (shared_.rows != nullptr) std::fill_n(shared_.rows, shared_.rows_range.count * view_.padded, 0.0F);
    const TiledRun tiled(tiled_);
    pack_whole(query_rows_);
    pack_whole(grad_rows_);
    if (view_.stats > 0) find_dots();
    if (sink_grad_ != nullptr && task_.part == 0) find_sink_gradient();
    for (int64_t begin = task_.begin; begin < task_.end; begin += kBlockColumns) {
      key_block(transform, begin, std::min(kBlockColumns, task_.end - begin));
    }
    if (task_.parts > 1) return;
    put_rows(grad_queries_, in_.grad_q, view_.queries(0), view_.sequence.q_length);
    write_query_terms(view_, in_.grad_terms, sums_);
  }

 private:
  QuerySums query_sums() const { return {view_.problem, in_.grad_terms, view_.sequence.q_length, view_.padded}; }

  // Queries, or gradients of outputs, as packed rows: of the whole sequence, where the array holds them so or the
  // sequence is short, or of the block at hand.
  struct HeldRows {
    HeadRows from = {};
    float* room = nullptr;
    const float* data = nullptr;
    bool whole = false;
  };
  HeldRows held(const HeadRows& from, float* room) const {
    const float* own = tiled_ ? nullptr : rows_in_place(from, view_.queries(0), view_.width);
    if (own != nullptr) return {from, room, own, true};
    return {from, room, room, !tiled_ && view_.sequence.q_length <= kHeldQueries};
  }
  void pack_whole(const HeldRows& rows) const {
    if (rows.whole && rows.data == rows.room)
      pack_rows(rows.from, view_.queries(0), view_.sequence.q_length, view_.width, rows.room);
  }
  const float* of_block(const HeldRows& rows, const DenseBlock& block) const {
    return rows.whole ? rows.data + block.first * view_.padded : rows.data;
  }
  void pack_block(const HeldRows& rows, const DenseBlock& block) const {
    if (!rows.whole) pack_rows(rows.from, view_.queries(block.first), block.rows, view_.width, rows.room);
  }

  void find_dots() {
    const HeadRows out = head_rows(in_.out, task_.head, view_.problem.dtype), residuals = view_.residuals(in_.stats);
    for (int64_t first = 0; first < view_.sequence.q_length; first += kBlockRows) {
      const DenseBlock block{.first = first, .rows = std::min(kBlockRows, view_.sequence.q_length - first)};
      pack_block(grad_rows_, block);
      const float* outputs = packed_rows(out, view_.queries(first), block.rows, view_.width, b_.left);
      if (residuals.data != nullptr) {
        pack_rows(residuals, {first, 1, nullptr}, block.rows, view_.width, b_.keys);
        for (int64_t i = 0; i < block.rows * view_.padded; i += kLanes) {
          store(b_.left + i, as_float(as_int(load(b_.left + i)) + (as_int(load(b_.keys + i)) >> 16)));
        }
      }
      const float* grads = of_block(grad_rows_, block);
      for (int64_t r = 0; r < block.rows; ++r) {
        F dot = set(0);
        for (int64_t i = r * view_.padded; i < (r + 1) * view_.padded; i += kLanes) {
          dot = fma(load(outputs + i), load(grads + i), dot);
        }
        b_.dots[first + r] = sum(dot);
      }
    }
  }

  // d sink = -sum of w_sink D over the queries, w_sink = exp(sink - maximum) / sum. The task of a head's first keys
  // does it for all of them.
  void find_sink_gradient() {
    const F sink = set(*sink_of(view_.problem.spec.transform, in_.alpha, task_.head));
    double sum = 0;
    for (int64_t query = 0; query < view_.sequence.q_length; ++query) {
      const float* stats = in_.stats + view_.stats_at(query);
      sum -= double{greatest(exp_below_one(sink - set(stats[0]))) * stats[1]} * b_.dots[query];
    }
    *sink_grad_ = sum;
  }

  template <class Transform>
  void key_block(const Transform& transform, int64_t begin, int64_t columns) {
    const TokenList keys = view_.keys(begin);
    grad_keys_ = b_.grad_keys, grad_values_ = b_.grad_values;
    if (key_sums_ == nullptr) {
      grad_keys_ = target_of(in_.grad_k, keys, b_.grad_keys);
      grad_values_ = target_of(in_.grad_v, keys, b_.grad_values);
    }
    pack_keys(keys, columns);
    for (int64_t first = 0; first < view_.sequence.q_length; first += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, view_.sequence.q_length - first);
      const int64_t limit = view_.seen(first + rows - 1) - begin;
      if (limit > 0) add_block(transform, {first, rows, begin, std::min(columns, limit)});
    }
#if defined(FOVEA_TILES)
    if (tiled_) b_.tiles.take_sums(columns, grad_keys_, grad_values_);
#endif
    if (key_sums_ != nullptr) {  // others read these keys too
      float* to = key_sums_ + (begin - task_.begin) * view_.padded;
      add_to_chain(grad_keys_, columns * view_.padded, to);
      add_to_chain(grad_values_, columns * view_.padded, to + (task_.end - task_.begin) * view_.padded);
      return;
    }
    put_rows(grad_keys_, in_.grad_k, keys, columns);
    put_rows(grad_values_, in_.grad_v, keys, columns);
  }

  // Returns the place in which gradients of rows are summed: the array, if it holds them as packed rows, or `room`,
  // from which put_rows() writes them.
  float* target_of(const Rows<void>& to, const TokenList& at, float* room) const {
    const HeadRows rows = head_rows(to, task_.head, view_.problem.dtype);
    const float* own = tiled_ ? nullptr : rows_in_place(rows, at, view_.width);
    return own != nullptr ? const_cast<float*>(own) : room;
  }
  void put_rows(const float* sums, const Rows<void>& to, const TokenList& at, int64_t count) const {
    const HeadRows rows = head_rows(to, task_.head, view_.problem.dtype);
    if (sums != rows_in_place(rows, at, view_.width)) unpack_rows({sums, view_.padded, view_.width}, rows, at, count);
  }

  void add_to_chain(const float* from, int64_t count, float* to) const {
    if (task_.link > 0) return add_floats(to, from, count);
    std::copy_n(from, count, to);
  }

  void pack_keys(const TokenList& keys, int64_t columns) {
#if defined(FOVEA_TILES)
    if (tiled_) return b_.tiles.pack_keys(keys, columns);
#endif
    scores_.pack_right(keys, columns, b_.key_panels);
    weight_grads_.pack_right(keys, columns, b_.value_panels);
    key_rows_ = packed_rows(keys_, keys, columns, view_.width, b_.keys);
    fill(grad_keys_, 0, columns * view_.padded, 0);
    fill(grad_values_, 0, columns * view_.padded, 0);
  }

#if defined(FOVEA_TILES)
  template <class Transform>
  void add_tiled_block(const Transform& transform, const DenseBlock& block) {
    b_.tiles.score(block, b_.weights, b_.grads);
    cap_block(view_, block, b_.weights, b_.slopes);
    if (terms_.any()) terms_.add(block, b_.weights);
    // Gradients of masked weights too: sums of finite products may be infinite, and 0 x infinity is NaN.
    for (int64_t r = 0; r < block.rows; ++r) {
      mask_unseen(view_, block, r, b_.weights + r * kBlockStride, -kInfinity);
      mask_unseen(view_, block, r, b_.grads + r * kBlockStride, 0);
    }
    if (view_.problem.dropout > 0 || terms_.any() || view_.problem.spec.cap) {
      backward_scores(transform, block, {0, block.rows});
      b_.tiles.split(block, b_.weights, b_.grads);
    } else {
      b_.tiles.split_backward(transform, block, b_.weights, b_.grads,
                              [&](int64_t r) { return row_of(block.first + r); });
    }
    b_.tiles.add(block, grad_queries_ + block.first * view_.padded);
  }
#endif

  template <class Transform>
  void add_block(const Transform& transform, const DenseBlock& block) {
#if defined(FOVEA_TILES)
    if (tiled_) return add_tiled_block(transform, block);
#endif
    const int64_t vecs = view_.padded / kLanes;
    const TokenList queries = view_.queries(block.first);
    const SeenPairs pairs(view_, block);
    pack_block(query_rows_, block);
    const float* left = scores_.left(queries, block.rows, of_block(query_rows_, block), b_.left);
    pairs.multiply_scores(scores_, {left, scores_.stride(), b_.key_panels, b_.weights, kBlockStride, in_.scale},
                          {0, block.rows});
    cap_block(view_, block, b_.weights, b_.slopes);
    if (terms_.any()) terms_.add(block, b_.weights);
    mask_block(view_, block, b_.weights, -kInfinity);
    PositiveScores positive;
    if constexpr (Transform::kSkips) PositiveSearch(b_.weights, block, vecs, kPassingCosts.backward).run(positive);
    if (positive.live == 0) return;
    pack_block(grad_rows_, block);
    grad_left_ = weight_grads_.left(queries, block.rows, of_block(grad_rows_, block), b_.left);
    const RowRun first = next_run(positive.live, block.rows, 0);
    int64_t end = first.first;
    for (RowRun run = first; run.count > 0; run = next_run(positive.live, block.rows, end)) {
      if (!positive.few) clear(end, run.first);
      backward_rows(transform, block, pairs, run);
      if (!positive.few) pairs.multiply_rows(query_product(block), run, vecs);
      end = run.first + run.count;
    }
    if (positive.few) return add_marked(block, positive);
    const RowRun rows{first.first, end - first.first};
    pairs.multiply_transposed(key_product(block), rows, vecs);
    pairs.multiply_transposed(value_product(block), rows, vecs);
  }

  // Rows between two runs: the sums over rows pass through them.
  void clear(int64_t first, int64_t end) {
    for (int64_t r = first; r < end; ++r) {
      fill(b_.weights + r * kBlockStride, 0, kBlockColumns, 0);
      fill(b_.grads + r * kBlockStride, 0, kBlockColumns, 0);
    }
  }

  // Weights and gradients of scores of some of the block's rows.
  template <class Transform>
  void backward_rows(const Transform& transform, const DenseBlock& block, const SeenPairs& pairs, RowRun run) {
    pairs.multiply_scores(weight_grads_, {grad_left_, weight_grads_.stride(), b_.value_panels, b_.grads, kBlockStride},
                          run);
    backward_scores(transform, block, run);
  }

  // dQ of the block's queries, and the transposed left sides of dK and dV of its keys.
  Product query_product(const DenseBlock& block) const {
    const int64_t padded = view_.padded;
    return {.a = b_.grads,
            .a_row = kBlockStride,
            .b = key_rows_,
            .b_step = padded,
            .c = grad_queries_ + block.first * padded,
            .c_row = padded,
            .depth = block.columns,
            .factor = &in_.scale,
            .add = true};
  }
  Product key_product(const DenseBlock& block) const {
    return {.a = b_.grads,
            .a_row = 1,
            .a_step = kBlockStride,
            .b = of_block(query_rows_, block),
            .b_step = view_.padded,
            .c = grad_keys_,
            .c_row = view_.padded,
            .depth = block.rows,
            .factor = &in_.scale,
            .add = true};
  }
  Product value_product(const DenseBlock& block) const {
    static constexpr float kOne = 1;
    Product product = key_product(block);
    product.a = b_.weights;
    product.b = of_block(grad_rows_, block);
    product.c = grad_values_;
    product.factor = &kOne;
    return product;
  }

  // Adds the contributions of the marked pairs to the gradients of queries, keys and values.
  void add_marked(const DenseBlock& block, const PositiveScores& positive) {
    const int64_t vecs = view_.padded / kLanes;
    uint64_t words[kBlockColumns * kColumnWords];
    const Marks rows = positive.rows_from(0), columns{words, kColumnWords};
    transpose_marks(rows, block.rows, block.columns, words, kColumnWords);
    multiply_marked(query_product(block), rows, block.rows, vecs);
    multiply_marked(key_product(block), columns, block.columns, vecs);
    multiply_marked(value_product(block), columns, block.columns, vecs);
  }

  BackwardRow row_of(int64_t query) const {
    if (view_.stats == 0) return {set(0), set(0), set(0)};
    const float* stats = in_.stats + view_.stats_at(query);
    return {set(stats[0]), set(stats[1]), set(b_.dots[query])};
  }

  // Scores and gradients of weights to weights and gradients of scores.
  template <class Transform>
  void backward_scores(const Transform& transform, const DenseBlock& block, RowRun run) {
    for (int64_t r = run.first; r < run.first + run.count; ++r) {
      const int64_t query = block.first + r;
      float *s = b_.weights + r * kBlockStride, *g = b_.grads + r * kBlockStride;
      mask_unseen(view_, block, r, g, 0);
      const RowDropout dropout = view_.dropout(query, block.begin);
      if (dropout.threshold > 0) dropout.apply(g, block.part());
      backward_row(transform, s, g, block.part().end, row_of(query));
      if (dropout.threshold > 0) dropout.apply(s, block.part());
    }
    if (terms_.any()) terms_.add_gradients(block, run, b_.grads, sums_, shared_);
    for (int64_t r = run.first; view_.problem.spec.cap && r < run.first + run.count; ++r)
      multiply_row(b_.grads + r * kBlockStride, b_.slopes + r * kBlockStride, block.part());
  }

  const DenseTask& task_;
  const DenseView view_;
  const AttentionBackward& in_;
  HeadRows queries_, keys_, grad_out_;
  RowDots scores_, weight_grads_;
  HeldRows query_rows_, grad_rows_;
  const float* grad_left_ = nullptr;  // of the block at hand
  const float* key_rows_ = nullptr;   // packed, of the block of keys at hand
  // The targets of dQ, and of dK and dV of the block of keys at hand.
  float *grad_queries_ = nullptr, *grad_keys_ = nullptr, *grad_values_ = nullptr;
  const bool tiled_;
  Arena arena_;
  DenseBackwardBuffers b_;
  DenseTerms terms_;
  QueryTermSums sums_;
  SharedTermSums shared_;
  double* sink_grad_;          // null unless wanted
  float* key_sums_ = nullptr;  // where heads share keys: dK, then dV, of the task's keys
};

}  // namespace
}  // namespace fovea::kernels
