#pragma once
#include "fovea/kernels/attention/cpu/positive-inl.h"

// Products of a block of cpu-dense without pairs that its queries do not see: a causal query sees the first keys, each
// query no fewer than the one before. On the diagonal this is half of a block's pairs.
namespace fovea::kernels {
namespace {

class SeenPairs {
 public:
  SeenPairs(const DenseView& view, const DenseBlock& block)
      : view_(view), block_(block), all_(view.seen_of(block, 0) == block.columns) {}

  // Computes scores of the run's rows with the block's columns; `product` begins at the block's first row. Scores of
  // pairs that are not seen may be left unwritten.
  void multiply_scores(const RowDots& dots, const RowDots::Block& product, RowRun run) const {
    const auto multiply_from = [&](int64_t first, int64_t end, ColumnPart part) {
      if (first >= end) return;
      RowDots::Block rows = product;
      rows.left += first * product.left_row;
      rows.out += first * product.out_row;
      dots.multiply(rows, end - first, part);
    };
    const int64_t run_end = run.first + run.count, end = block_.part().end;
    if (all_) return multiply_from(run.first, run_end, {0, end});
    int64_t row = run.first;
    for (int64_t panel = 0; panel < end; panel += kPanel) {
      const int64_t panel_end = std::min(panel + kPanel, end);
      row = first_row(row, run_end, panel);
      int64_t from = row;
      for (int64_t part = panel + kLanes; part < panel_end; part += kLanes) {
        const int64_t next = first_row(from, run_end, part);
        multiply_from(from, next, {panel, part});
        from = next;
      }
      multiply_from(from, run_end, {panel, panel_end});
    }
  }

  // Rows of weights, or of their gradients, times rows of keys; `product` begins at the block's first row.
  void multiply_rows(const Product& product, RowRun run, int64_t vecs) const {
    const int64_t run_end = run.first + run.count, step = all_ ? run.count : step_of(vecs);
    for (int64_t first = run.first; first < run_end; first += step) {
      const int64_t rows = std::min(step, run_end - first);
      Product part = product;
      part.a += first * product.a_row;
      part.c += first * product.c_row;
      part.factor += first * product.factor_step;
      part.depth = view_.seen_of(block_, first + rows - 1);
      if (part.depth > 0) multiply(part, rows, vecs);
    }
  }

  // Columns of weights, or of their gradients, times the run's rows of gradients of outputs, or of queries; `product`
  // begins at the block's first row.
  void multiply_transposed(const Product& product, RowRun run, int64_t vecs) const {
    const int64_t run_end = run.first + run.count, step = all_ ? block_.columns : step_of(vecs);
    int64_t row = run.first;
    for (int64_t column = 0; column < block_.columns; column += step) {
      row = first_row(row, run_end, column);
      if (row == run_end) return;
      Product part = product;
      part.a += column * product.a_row + row * product.a_step;
      part.b += row * product.b_step;
      part.c += column * product.c_row;
      part.depth = run_end - row;
      multiply(part, std::min(step, block_.columns - column), vecs);
    }
  }

 private:
  // Rows of a product that end at one key, or columns that begin at one row: the fewest whole tiles.
  static int64_t step_of(int64_t vecs) { return tile_rows(static_cast<int>(std::min<int64_t>(vecs, kMaxVecs))); }
  // The first of rows [row, end) that sees the column, or end.
  int64_t first_row(int64_t row, int64_t end, int64_t column) const {
    while (row < end && view_.seen_of(block_, row) <= column) ++row;
    return row;
  }

  const DenseView& view_;
  const DenseBlock& block_;
  const bool all_;  // pairs are seen
};

}  // namespace
}  // namespace fovea::kernels
