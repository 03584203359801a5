#pragma once
#include "fovea/kernels/attention/cpu/offsets-inl.h"
#include "fovea/kernels/attention/cpu/positive-inl.h"

// Terms by offset in cpu-dense, a block of scores at a time: of B queries and C keys they meet a window of B + C - 1
// offsets.
namespace fovea::kernels {
namespace {

constexpr int64_t kWindow = kBlockRows + kBlockColumns;
constexpr int64_t kWindowStride = score_stride(kWindow);

// The buffers of the product's term, for one block.
struct WindowBuffers {
  float *panels, *rows;       // the window's rows: packed; for backward, as rows
  float *queries, *products;  // [rows][padded], [rows][kWindowStride]: products, then their gradients
};

inline WindowBuffers window_buffers(Arena& arena, const DenseCall& call) {
  const AttentionProblem& problem = *call.problem;
  if (problem.offsets.product.count == 0) return {};
  const int64_t width = problem.head_dim, padded = round_up(width, kLanes);
  return {.panels = arena.take(panel_floats(kWindow, width)),
          .rows = call.backward != nullptr ? arena.take(kWindow * padded) : nullptr,
          .queries = arena.take(kBlockRows * padded),
          .products = arena.take(kBlockRows * kWindowStride)};
}

// Gradients that a task sums over its keys, of all queries of the sequence; null: not wanted.
struct QueryTermSums {
  float *queries = nullptr, *by_query = nullptr;  // [q_length][padded], [q_length][count]
};

// Writes them.
inline void write_query_terms(const DenseView& view, const OffsetGradients& to, const QueryTermSums& sums) {
  const Sequence& s = view.sequence;
  if (sums.queries != nullptr) {
    unpack_rows({sums.queries, view.padded, view.width}, head_rows(to.queries, view.head, view.problem.dtype),
                view.queries(0), s.q_length);
  }
  if (sums.by_query == nullptr) return;
  const int64_t count = view.problem.offsets.by_query.count;
  for (int64_t i = 0; i < s.q_length; ++i) {
    std::copy_n(sums.by_query + i * count, count, float_row(to.by_query, s.q_begin + i, view.head));
  }
}

class DenseTerms {
 public:
  // scale: on the product.
  DenseTerms(const DenseView& view, const OffsetTerms& terms, const WindowBuffers& buffers, float scale)
      : view_(view), terms_(terms), b_(buffers), has_(view.problem.offsets), scale_(scale) {
    if (has_.product.count == 0) return;
    queries_ = head_rows(terms.queries, view.head, view.problem.dtype);
    rows_ = head_rows(terms.rows, view.head, view.problem.dtype);
  }

  bool any() const { return has_.changes_scores(); }

  // Adds to the block's scores, in rows of kBlockStride, what its rows see.
  void add(const DenseBlock& block, float* s) {
    if (has_.product.count > 0) multiply_window(block);
    for (int64_t r = 0; r < block.rows; ++r) {
      float* row = s + r * kBlockStride;
      const ColumnRange columns = columns_of(block, r);
      const ColumnOffsets offsets = offsets_of(block, r);
      if (has_.by_head.count > 0) {
        add_at_offsets(row, columns, offsets, {terms_.by_head + view_.head * has_.by_head.count, has_.by_head});
      }
      if (has_.by_query.count > 0) {
        const float* values = float_row(terms_.by_query, view_.sequence.q_begin + block.first + r, view_.head);
        add_at_offsets(row, columns, offsets, {values, has_.by_query});
      }
      if (has_.product.count > 0) add_at_offsets(row, columns, offsets, {b_.products + r * kWindowStride, met_});
    }
  }

  // Adds the gradients of some of the block's scores to the sums of the terms, after add() of the same block.
  void add_gradients(const DenseBlock& block, RowRun run, const float* grads, const QueryTermSums& sums,
                     const SharedTermSums& shared) {
    for (int64_t r = run.first; r < run.first + run.count; ++r) {
      const float* g = grads + r * kBlockStride;
      const ColumnRange columns = columns_of(block, r);
      const ColumnOffsets offsets = offsets_of(block, r);
      if (shared.by_head != nullptr) sum_by_offset(g, columns, offsets, shared.by_head_range, shared.by_head);
      if (sums.by_query == nullptr) continue;
      sum_by_offset(g, columns, offsets, has_.by_query, sums.by_query + (block.first + r) * has_.by_query.count);
    }
    if (has_.product.count > 0) add_window_gradients(block, run, grads, sums, shared);
  }

 private:
  ColumnRange columns_of(const DenseBlock& block, int64_t r) const {
    return {0, static_cast<int32_t>(view_.seen_of(block, r))};
  }
  ColumnOffsets offsets_of(const DenseBlock& block, int64_t r) const {
    const Sequence& s = view_.sequence;
    return {block.begin - (block.first + r + s.k_length - s.q_length), 1, nullptr};
  }

  void multiply_window(const DenseBlock& block) {
    met_ = met_by(has_.product, offsets_of(block, block.rows - 1)[0], offsets_of(block, 0)[block.columns - 1]);
    const TokenList rows = {met_.first - has_.product.first, 1, nullptr};
    pack_panels(rows_, rows, met_.count, view_.width, b_.panels);
    if (b_.rows != nullptr) pack_rows(rows_, rows, met_.count, view_.width, b_.rows);
    pack_rows(queries_, view_.queries(block.first), block.rows, view_.width, b_.queries);
    for (int64_t r = 0; r < block.rows; r += kRowStep) {
      const int64_t end = std::min(r + kRowStep, block.rows);
      const ScoreProduct product = {b_.queries + r * view_.padded,   view_.padded,  b_.panels, view_.width,
                                    b_.products + r * kWindowStride, kWindowStride, &scale_};
      const MetPlaces places = places_of(block, {r, end - r});
      multiply_panels(product, end - r, {round_down(places.begin, kLanes), round_up(places.end, kLanes)});
    }
  }

  void add_window_gradients(const DenseBlock& block, RowRun run, const float* grads, const QueryTermSums& sums,
                            const SharedTermSums& shared) const {
    for (int64_t r = run.first; r < run.first + run.count; ++r) {
      float* products = b_.products + r * kWindowStride;
      std::fill_n(products, met_.count, 0.0F);
      sum_by_offset(grads + r * kBlockStride, columns_of(block, r), offsets_of(block, r), met_, products);
    }
    if (sums.queries != nullptr) add_query_gradients(block, run, sums.queries + block.first * view_.padded);
    if (shared.rows != nullptr) add_row_gradients(block, run, shared);
  }

  // queries: of the block's, [rows][padded].
  void add_query_gradients(const DenseBlock& block, RowRun run, float* queries) const {
    const int64_t padded = view_.padded, run_end = run.first + run.count;
    for (int64_t r = run.first; r < run_end; r += kRowStep) {
      const int64_t rows = std::min(kRowStep, run_end - r);
      const MetPlaces places = places_of(block, {r, rows});
      multiply({.a = b_.products + r * kWindowStride + places.begin,
                .a_row = kWindowStride,
                .b = b_.rows + places.begin * padded,
                .b_step = padded,
                .c = queries + r * padded,
                .c_row = padded,
                .depth = places.end - places.begin,
                .factor = &scale_,
                .add = true},
               rows, padded / kLanes);
    }
  }

  void add_row_gradients(const DenseBlock& block, RowRun run, const SharedTermSums& shared) const {
    const int64_t padded = view_.padded, count = summed_offsets(shared, met_.first, met_.count);
    // Each row meets no greater offsets than the one before: rows that meet some of them follow each other.
    int64_t begin = run.first + run.count, end = begin;
    for (int64_t place = 0; place < count; place += kRowStep) {
      const int64_t places = std::min(kRowStep, count - place);
      while (begin > run.first && places_of(block, {begin - 1, 1}).begin < place + places) --begin;
      while (end > begin && places_of(block, {end - 1, 1}).end <= place) --end;
      if (end == begin) continue;
      multiply({.a = b_.products + begin * kWindowStride + place,
                .a_row = 1,
                .a_step = kWindowStride,
                .b = b_.queries + begin * padded,
                .b_step = padded,
                .c = shared.rows + (met_.first - shared.rows_range.first + place) * padded,
                .c_row = padded,
                .depth = end - begin,
                .factor = &scale_,
                .add = true},
               places, padded / kLanes);
    }
  }

  // The places in met_ of the offsets of some of the block's rows.
  struct MetPlaces {
    int64_t begin = 0, end = 0;
  };
  MetPlaces places_of(const DenseBlock& block, RowRun run) const {
    const auto place = [&](int64_t offset) { return std::clamp<int64_t>(offset - met_.first, 0, met_.count - 1); };
    return {place(offsets_of(block, run.first + run.count - 1)[0]),
            place(offsets_of(block, run.first)[block.columns - 1]) + 1};
  }

  const DenseView& view_;
  const OffsetTerms& terms_;
  WindowBuffers b_;
  const OffsetRanges& has_;
  float scale_;
  HeadRows queries_, rows_;
  OffsetRange met_;  // of the block
};

}  // namespace
}  // namespace fovea::kernels
