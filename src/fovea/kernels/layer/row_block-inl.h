#pragma once
#include "fovea/kernels/layer/emit-inl.h"

// Multiplies some rows of a matrix with panels of a weight.
namespace fovea::kernels {
namespace {

// Rows that an inner product takes at once.
#if defined(FOVEA_TILES)
constexpr int64_t kRowStep = 2 * kTileSide;
#else
constexpr int64_t kRowStep = kTileRows;
#endif
// Rows of a piece, whole steps: with their depth they stay in the nearer caches while the panels pass by.
constexpr int64_t kRowBlock = 64 / kRowStep * kRowStep;

// work(first, count) for pieces of the rows: at most kRowBlock, whole steps, and as many for each thread. A row's
// result does not depend on its piece.
template <class Work>
void in_pieces(int64_t rows, Executor& executor, Work&& work) {
  const int threads = executor.num_threads();
  const int64_t most = std::max<int64_t>(1, pieces_of(pieces_of(rows, kRowBlock), threads) * threads);
  const int64_t piece = std::clamp<int64_t>(padded_to(pieces_of(rows, most), kRowStep), kRowStep, kRowBlock);
  executor.run(pieces_of(rows, piece), [&](int64_t p, int) { work(p * piece, std::min(piece, rows - p * piece)); });
}

// out = relu?(a b + bias); Bias is T or float.
template <class T, class Bias>
struct RowsOf {
  Matrix<T> a;                    // [rows, depth]
  const float* panels = nullptr;  // [columns / kTileColumns][steps][kTileColumns]
  const Bias* bias = nullptr;     // [columns] or null
  T* out = nullptr;               // [rows, columns]
  int64_t out_stride = 0, columns = 0, depth = 0;
  bool relu = false;
};

// Writes a tile's sums: adds the bias, applies ReLU. `columns` are those left of the row.
template <class T, class Bias>
struct Finish {
  T* out;
  const Bias* bias;
  int64_t stride, columns;
  bool relu;

  F finished(F value, int64_t first) const {
    if (bias != nullptr) value = value + load_some(bias + first, columns - first);
    return relu ? max(set(0), value) : value;
  }
  void row(int64_t r, F low, F high) const {
    T* to = out + r * stride;
    if (columns >= kTileColumns) {
      store(to, finished(low, 0));
      store(to + kLanes, finished(high, kLanes));
    } else {
      store_part(to, finished(low, 0), columns);
      if (columns > kLanes) store_part(to + kLanes, finished(high, kLanes), columns - kLanes);
    }
  }
};

template <class T, class Bias>
Finish<T, Bias> finish_of(const RowsOf<T, Bias>& job, int64_t row, int64_t column) {
  return {job.out + row * job.out_stride + column, job.bias == nullptr ? nullptr : job.bias + column, job.out_stride,
          job.columns - column, job.relu};
}

// Computes the rows first ... first + rows - 1.
template <class T, class Bias>
void row_block(const RowsOf<T, Bias>& job, int64_t first, int64_t rows) {
  using Step = typename StepOf<T>::type;
  const int64_t steps = steps_of<Step>(job.depth);
  const LeftFactor left = left_rows<Step>(job.a.at(first, 0), rows, job.depth,
                                          thread_scratch(Use::kLeft).get<float>(padded_to(rows, 16) * steps));
  const SessionOf<Step> session;
  for (int64_t column = 0; column < job.columns; column += kTileColumns) {
    Finish<T, Bias> finish = finish_of(job, first, column);
    panel_product<Step, Line::kAlongDepth>(left, rows, job.panels + column * steps, steps, finish);
  }
}

}  // namespace
}  // namespace fovea::kernels
