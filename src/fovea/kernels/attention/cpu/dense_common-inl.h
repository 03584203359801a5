#pragma once
#include "fovea/kernels/attention/cpu/row_dots-inl.h"
#if defined(FOVEA_TILES)
#include "fovea/kernels/attention/cpu/tiled_products-inl.h"
#endif

// Shared by forward and backward of cpu-dense: the view of a task, and transforms of blocks of scores.
namespace fovea::kernels {
namespace {

// A block's scores, keys and sums fit the second cache together.
constexpr int64_t kBlockRows = 96, kBlockColumns = 192;
constexpr int64_t kBlockStride = score_stride(kBlockColumns);

// Rows [first, first + rows) of queries against columns [begin, begin + columns) of keys.
struct DenseBlock {
  int64_t first = 0, rows = 0, begin = 0, columns = 0;
  ColumnPart part() const { return {0, round_up(columns, kLanes)}; }
};

struct DenseView : SequenceView {
  template <class Args>
  DenseView(const DenseCall& call, const DenseTask& task, const Args& args)
      : SequenceView(*call.problem, *task.sequence, task.head, args) {
    stats = dense_stats(problem);
    leaves_out_own_ = leaves_out_own(problem);
  }

  // The number of keys that query i of the sequence sees: the first ones.
  int64_t seen(int64_t i) const { return std::max<int64_t>(row_of(problem, sequence, i).limit(), 0); }
  // The number of the block's columns that its row r sees.
  int64_t seen_of(const DenseBlock& block, int64_t r) const {
    return std::clamp<int64_t>(seen(block.first + r) - block.begin, 0, block.columns);
  }
  // The block's column that its row r leaves out although it sees later ones, the query's own key; -1: none.
  int64_t left_out_of(const DenseBlock& block, int64_t r) const {
    if (!leaves_out_own_) return -1;
    const int64_t own = row_of(problem, sequence, block.first + r).query - block.begin;
    return own >= 0 && own < block.columns ? own : -1;
  }
  TokenList queries(int64_t first) const { return {sequence.q_begin + first, 1, nullptr}; }
  TokenList keys(int64_t first) const { return {sequence.k_begin + first, 1, nullptr}; }
  // The rounding errors of the outputs, from query 0 on, as int16 read as the upper half of 32 bits; empty if the
  // outputs are not rounded.
  HeadRows residuals(const float* all_stats) const {
    if (stats == 0 || problem.dtype != DType::kBFloat16) return {};
    return {.data = all_stats + stats_at(0) + 2, .stride = 2 * problem.num_heads * stats, .lane = Lane::kBFloat16};
  }
  // The dropout of a query's weights on the keys from first_key on.
  RowDropout dropout(int64_t query, int64_t first_key) const {
    return dropout_of(sequence.q_begin + query, first_key, 1);
  }

 private:
  bool leaves_out_own_ = false;
};

// Around what a task does by tiles, if it does.
struct TiledRun {
  explicit TiledRun([[maybe_unused]] bool tiled) {
#if defined(FOVEA_TILES)
    if (tiled) session.emplace();
#endif
  }
#if defined(FOVEA_TILES)
  std::optional<TileSession> session;
#endif
};
constexpr int64_t kTiledRows = 32;  // of a block of forward's: its scores stay in the first cache

// Writes `value` over the columns that row r of the block does not see.
inline void mask_unseen(const DenseView& view, const DenseBlock& block, int64_t r, float* row, float value) {
  fill(row, view.seen_of(block, r), block.part().end, value);
  const int64_t left_out = view.left_out_of(block, r);
  if (left_out >= 0) row[left_out] = value;
}
inline void mask_block(const DenseView& view, const DenseBlock& block, float* s, float value) {
  for (int64_t r = 0; r < block.rows; ++r) mask_unseen(view, block, r, s + r * kBlockStride, value);
}

// Caps the block's scores, if the mechanism does. Where `slopes` is not null, it gets the derivatives, and zeros where
// a row does not see the column: what the scores hold there may be no number.
inline void cap_block(const DenseView& view, const DenseBlock& block, float* s, float* slopes) {
  if (!view.problem.spec.cap) return;
  const SoftCap cap(view.problem.spec.cap->cap);
  for (int64_t r = 0; r < block.rows; ++r) {
    float* of_row = slopes == nullptr ? nullptr : slopes + r * kBlockStride;
    cap_row(cap, s + r * kBlockStride, block.part(), of_row);
    if (of_row != nullptr) mask_unseen(view, block, r, of_row, 0);
  }
}

// e^(s - top), s at most top.
#if defined(FOVEA_TILES)
// Beside products by tiles exponentials take most of the time: relative error 3e-6, less than what narrowed() takes;
// zero below 2^-99.
inline F exp_below(F s, F top) {
  const F below = s - top, log2e = set(1.44269504F);
  constexpr float kShift = 12583039.0F;  // 1.5 2^23 + 127, as in exp_below_one()
  const F shifted = fma(below, log2e, set(kShift));
  const F t = fma(below, log2e, set(kShift) - shifted);  // in [-0.5, 0.5]
  F p = set(9.58285536e-3F);                             // 2^t; 1 at 0
  p = fma(p, t, set(5.59064367e-2F));
  p = fma(p, t, set(0.240240986F));
  p = fma(p, t, set(0.693124192F));
  p = fma(p, t, set(1.0F));
  return select(less(below, set(-69.0F)), set(0), p * as_float((I)((U)as_int(shifted) << 23)));
}
// Weights are as narrow as tiles take them, so that these sum to 1.
inline F weight_of(F e) { return narrowed(e); }
#else
// Sums over keys may begin with the smallest weights, as scores that fall with the distance have them.
inline F exp_below(F s, F top) { return zero_if_tiny(exp_below_one(s - top)); }
inline F weight_of(F e) { return e; }
#endif

// The running maximum and sum of a row.
struct RunningRow {
  float top = kLowest, total = 0;
};

// The numbers by which a row's scores become weights and gradients. Only softmax has such numbers.
struct BackwardRow {
  F top, factor, dot;  // of its maximum; 1 / sum; dO . O
};

// A row of scores and of gradients of weights.
template <class Transform>
void backward_row(const Transform& transform, float* s, float* g, int64_t n, const BackwardRow& row) {
  for (int64_t j = 0; j < n; j += kLanes) {
    F score = load(s + j), gradient = load(g + j);
    transform.backward(score, gradient, row);
    store(s + j, score);
    store(g + j, gradient);
  }
}

// Softmax: a block of scores becomes exponentials below the maximum so far; what was summed before is brought down to
// it, in the outputs [rows][padded] too.
struct DenseSoftmax {
  static constexpr bool kSkips = false;
  static void weigh(float* s, const DenseBlock& block, RunningRow* running, float* out, int64_t padded) {
    weigh(s, block, running, out, padded, ToScores{s});
  }
  // Weights go to a store: to.at(r, j, a, b) takes those of the block's row r from columns j and j + kLanes on,
  // to.last(r, j, a) those of the last columns where they are one vector.
  template <class Store>
  static void weigh(float* s, const DenseBlock& block, RunningRow* running, float* out, int64_t padded,
                    const Store& to) {
    int64_t r = 0;
    for (; r + 4 <= block.rows; r += 4) weigh_some<4>(s, r, block, running + r, out + r * padded, padded, to);
    for (; r < block.rows; ++r) weigh_some<1>(s, r, block, running + r, out + r * padded, padded, to);
  }
  static float factor(const RunningRow& row) { return row.total == 0 ? 0.0F : 1.0F / row.total; }

  // A score becomes a weight, the gradient of that weight the gradient of the score: dS = P (dP - D), where
  // D = sum P dP = dO . O.
  static void backward(F& s, F& g, const BackwardRow& row) {
    const F p = zero_if_tiny(exp_below(s, row.top) * row.factor);
    s = p;
    g = p * (g - row.dot);
  }

 private:
  // Back to where the scores are.
  struct ToScores {
    float* s;
    void at(int64_t r, int64_t j, F a, F b) const {
      store(s + r * kBlockStride + j, a);
      store(s + r * kBlockStride + j + kLanes, b);
    }
    void last(int64_t r, int64_t j, F a) const { store(s + r * kBlockStride + j, a); }
  };

  template <int kRows, class Store>
  static void weigh_some(float* block_scores, int64_t row, const DenseBlock& block, RunningRow* running, float* out,
                         int64_t padded, const Store& to) {
    const int64_t n = block.part().end;
    const float* s = block_scores + row * kBlockStride;
    F most[kRows], total[kRows];
    for (int r = 0; r < kRows; ++r) most[r] = set(running[r].top), total[r] = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) most[r] = max(load(s + r * kBlockStride + j), most[r]);
    }
    for (int r = 0; r < kRows; ++r) {
      const float top = greatest(most[r]);
      most[r] = set(top);
      if (top != running[r].top) bring_down(running[r], top, out + r * padded, padded);
    }
    const auto weight = [&](int r, int64_t j) {
      const F e = weight_of(exp_below(load(s + r * kBlockStride + j), most[r]));
      total[r] = total[r] + e;
      return e;
    };
    int64_t j = 0;
    for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
      for (int r = 0; r < kRows; ++r) {
        const F a = weight(r, j), b = weight(r, j + kLanes);
        to.at(row + r, j, a, b);
      }
    }
    for (int r = 0; j < n && r < kRows; ++r) to.last(row + r, j, weight(r, j));
    for (int r = 0; r < kRows; ++r) running[r].total += sum(total[r]);
  }
  static void bring_down(RunningRow& row, float top, float* out, int64_t padded) {
    const F by = zero_if_tiny(exp_below_one(set(row.top) - set(top)));
    float one[kLanes];
    store(one, by);
    row.top = top;
    row.total *= one[0];
    for (int64_t i = 0; i < padded; i += kLanes) store(out + i, load(out + i) * by);
  }
};

// Weights that do not depend on the row's other scores.
template <class Function>
struct DensePointwise {
  static constexpr bool kSkips = Function::kNothingBelowZero;
  Function function;

  template <class Store>
  void weigh(const float* s, const DenseBlock& block, RunningRow*, float*, int64_t, const Store& to) const {
    const auto weight = [&](int64_t r, int64_t j) { return weight_of_score(function, load(s + r * kBlockStride + j)); };
    const int64_t n = block.part().end;
    for (int64_t r = 0; r < block.rows; ++r) {
      int64_t j = 0;
      for (; j + 2 * kLanes <= n; j += 2 * kLanes) to.at(r, j, weight(r, j), weight(r, j + kLanes));
      if (j < n) to.last(r, j, weight(r, j));
    }
  }
  void weigh(float* s, const DenseBlock& block, RunningRow*, float*, int64_t) const {
    for (int64_t r = 0; r < block.rows; ++r) weigh_pointwise(function, s + r * kBlockStride, block.part().end);
  }
  static float factor(const RunningRow&) { return 1; }
  void backward(F& s, F& g, const BackwardRow&) const { backward_pointwise(function, s, g); }
};

template <class Work>
void with_dense_transform(const AttentionProblem& problem, Work&& work) {
  const auto pointwise = [&]<class Function>(Function function) { work(DensePointwise<Function>{function}); };
  if (!with_pointwise(problem.spec.transform, pointwise)) work(DenseSoftmax{});
}

}  // namespace
}  // namespace fovea::kernels
