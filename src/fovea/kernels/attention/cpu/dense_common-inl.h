#pragma once
#include "fovea/kernels/attention/cpu/row_dots-inl.h"
#if defined(FOVEA_TILES)
#include "fovea/kernels/attention/cpu/tiled_products-inl.h"
#endif

// What forward and backward of cpu-dense share: the view of a task, and transforms of blocks of scores.
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
  }

  // How many keys query i of the sequence sees: the first ones.
  int64_t seen(int64_t i) const { return std::max<int64_t>(row_of(problem, sequence, i).limit(), 0); }
  // Of the block's columns, how many its row r sees.
  int64_t seen_of(const DenseBlock& block, int64_t r) const {
    return std::clamp<int64_t>(seen(block.first + r) - block.begin, 0, block.columns);
  }
  TokenList queries(int64_t first) const { return {sequence.q_begin + first, 1, nullptr}; }
  TokenList keys(int64_t first) const { return {sequence.k_begin + first, 1, nullptr}; }
  // What rounding took from the outputs, query 0 first, int16 read as the upper half of 32 bits; nothing where they are
  // not rounded.
  HeadRows residuals(const float* all_stats) const {
    if (stats == 0 || problem.dtype != DType::kBFloat16) return {};
    return {.data = all_stats + stats_at(0) + 2, .stride = 2 * problem.num_heads * stats, .lane = Lane::kBFloat16};
  }
  // Of a query's weights on the keys from first_key on.
  RowDropout dropout(int64_t query, int64_t first_key) const {
    return dropout_of(sequence.q_begin + query, first_key, 1);
  }
};

// Writes `value` over the columns that the block's rows do not see.
inline void mask_block(const DenseView& view, const DenseBlock& block, float* s, float value) {
  for (int64_t r = 0; r < block.rows; ++r) {
    fill(s + r * kBlockStride, view.seen_of(block, r), block.part().end, value);
  }
}

// The running maximum and sum of a row.
struct RunningRow {
  float top = kLowest, total = 0;
};

// Softmax: a block of scores becomes exponentials below the maximum so far; what was summed before is brought down to
// it, in the outputs [rows][padded] too.
struct DenseSoftmax {
  static constexpr bool kSkips = false;
  static void weigh(float* s, const DenseBlock& block, RunningRow* running, float* out, int64_t padded) {
    int64_t r = 0;
    for (; r + 4 <= block.rows; r += 4)
      weigh_some<4>(s + r * kBlockStride, block, running + r, out + r * padded, padded);
    for (; r < block.rows; ++r) weigh_some<1>(s + r * kBlockStride, block, running + r, out + r * padded, padded);
  }
  static float factor(const RunningRow& row) { return row.total == 0 ? 0.0F : 1.0F / row.total; }

  // A block of scores becomes weights; grads, of the weights, become those of the scores: dS = P (dP - D) with
  // D = sum P dP = dO . O. stats: maximum and 1 / sum.
  static void gradient(float* s, float* g, int64_t n, const float* stats, float dot) {
    const F top = set(stats[0]), factor = set(stats[1]), mean = set(dot);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F p = zero_if_tiny(exp_below_one(load(s + j) - top) * factor);
      store(s + j, p);
      store(g + j, p * (load(g + j) - mean));
    }
  }

 private:
  template <int kRows>
  static void weigh_some(float* s, const DenseBlock& block, RunningRow* running, float* out, int64_t padded) {
    const int64_t n = block.part().end;
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
    for (int64_t j = 0; j < n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) {
        F e = exp_below_one(load(s + r * kBlockStride + j) - most[r]);
#if defined(FOVEA_TILES)
        e = narrowed(e);  // so that the weights that tiles take sum to 1
#endif
        total[r] = total[r] + e;
        store(s + r * kBlockStride + j, e);
      }
    }
    for (int r = 0; r < kRows; ++r) running[r].total += sum(total[r]);
  }
  static void bring_down(RunningRow& row, float top, float* out, int64_t padded) {
    const F by = exp_below_one(set(row.top) - set(top));
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

  void weigh(float* s, const DenseBlock& block, RunningRow*, float*, int64_t) const {
    for (int64_t r = 0; r < block.rows; ++r) weigh_pointwise(function, s + r * kBlockStride, block.part().end);
  }
  static float factor(const RunningRow&) { return 1; }
  void gradient(float* s, float* g, int64_t n, const float*, float) const { grade_pointwise(function, s, g, n); }
};

template <class Work>
void with_dense_transform(const AttentionProblem& problem, Work&& work) {
  static_assert(kAreAllTransforms<Softmax, Sparsemax, Entmax, Relu, Gelu, LeakyRelu>);
  const Transform& transform = problem.spec.transform;
  if (std::holds_alternative<Relu>(transform)) return work(DensePointwise<ReluFunction>{});
  if (std::holds_alternative<Gelu>(transform)) return work(DensePointwise<GeluFunction>{});
  if (const auto* leaky = std::get_if<LeakyRelu>(&transform)) {
    return work(DensePointwise<LeakyReluFunction>{{static_cast<float>(leaky->slope)}});
  }
  work(DenseSoftmax{});
}

}  // namespace
}  // namespace fovea::kernels
