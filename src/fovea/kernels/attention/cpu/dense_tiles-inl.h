#pragma once
#include "fovea/kernels/attention/cpu/dense_common-inl.h"

// The products of cpu-dense by tiles.
namespace fovea::kernels {
namespace {

// The rows and columns of a block, in tiles.
inline int64_t high_of(const DenseBlock& block) { return tiles_of(block.rows); }
inline int64_t wide_of(const DenseBlock& block) { return tiles_of(block.columns); }
// Pairs of its rows or columns as a depth.
inline int64_t deep_of(int64_t numbers) { return (numbers + kTilePairs - 1) / kTilePairs; }

// Scores in a block take what the queries did not.
inline void scale_block(const DenseBlock& block, float factor, float* s) {
  if (factor == 1) return;
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t j = 0; j < block.part().end; j += kLanes) {
      store(s + r * kBlockStride + j, load(s + r * kBlockStride + j) * set(factor));
    }
  }
}

// The products of a task's queries with one block of keys at a time.
class DenseForwardTiles {
 public:
  DenseForwardTiles(Arena& arena, int64_t queries, int64_t width)
      : width_(width),
        query_words_(arena.take(left_rows_floats(queries, width))),
        key_words_(arena.take(right_columns_floats(kBlockColumns, width))),
        value_words_(arena.take(token_pairs_floats(kBlockColumns, width))),
        weight_words_(arena.take(split_floats(kBlockRows, kBlockColumns))) {}

  void begin(const TileRows& queries, const HeadRows& keys, const HeadRows& values, float scale) {
    key_rows_ = keys, value_rows_ = values;
    const float of_queries = scale_of_queries(scale);
    queries_ = pack_left_rows(queries, of_queries, query_words_);
    rest_ = scale / of_queries;
  }
  void pack_keys(const TokenList& at, int64_t columns) {
    keys_ = pack_right_columns({key_rows_, at, columns, width_}, key_words_);
    values_ = pack_right_tokens({value_rows_, at, columns, width_}, value_words_);
  }
  // The block's scores; its first row is query `row` of the task.
  void score(const DenseBlock& block, int64_t row, float* s) const {
    TileFactor left = queries_;
    left.data += row * left.row;
    multiply_by_tiles<Split::kNone>(
        {left, keys_, s, kBlockStride, high_of(block), wide_of(block), tiles_of(width_ / 2)});
    scale_block(block, rest_, s);
  }
  // The place of the block's weights.
  SplitRows weights(const DenseBlock& block) const { return SplitRows(block.rows, block.columns, weight_words_); }
  void split(const DenseBlock& block, const float* s) const {
    const SplitRows to = weights(block);
    for (int64_t r = 0; r < block.rows; ++r) {
      const float* row = s + r * kBlockStride;
      int64_t j = 0;
      for (; j + 2 * kLanes <= block.part().end; j += 2 * kLanes) to.at(r, j, load(row + j), load(row + j + kLanes));
      if (j < block.part().end) to.last(r, j, load(row + j));
    }
  }
  // out [rows][padded width] += weights . values.
  void add_values(const DenseBlock& block, float* out) const {
    multiply_by_tiles<Split::kLeft>({weights(block).factor(), values_, out, round_up(width_, kLanes), high_of(block),
                                     tiles_of(width_), deep_of(block.columns), true});
  }

 private:
  int64_t width_;
  float *query_words_, *key_words_, *value_words_, *weight_words_;
  HeadRows key_rows_, value_rows_;
  TileFactor queries_, keys_, values_;
  float rest_ = 1;  // of the scale
};

// The products of all of a sequence's queries with one block of keys at a time.
class DenseBackwardTiles {
 public:
  DenseBackwardTiles(Arena& arena, int64_t queries, int64_t width)
      : width_(width),
        query_words_(arena.take(left_rows_floats(queries, width))),
        grad_words_(arena.take(left_rows_floats(queries, width))),
        query_tokens_(arena.take(token_pairs_floats(queries, width))),
        grad_tokens_(arena.take(token_pairs_floats(queries, width))),
        key_words_(arena.take(right_columns_floats(kBlockColumns, width))),
        value_words_(arena.take(right_columns_floats(kBlockColumns, width))),
        key_tokens_(arena.take(token_pairs_floats(kBlockColumns, width))),
        weights_(arena.take(split_floats(kBlockRows, kBlockColumns))),
        grads_(arena.take(split_floats(kBlockRows, kBlockColumns))),
        grad_rows_(arena.take(split_floats(kBlockRows, kBlockColumns))),
        grad_keys_(arena.take(round_up(width, kLanes) * kBlockColumns)),
        grad_values_(arena.take(round_up(width, kLanes) * kBlockColumns)) {}

  struct Arrays {
    HeadRows queries, keys, values, grad_out;
  };
  void begin(const Arrays& arrays, const TokenList& all_queries, int64_t queries, float scale) {
    arrays_ = arrays;
    scale_ = scale;
    const float of_queries = scale_of_queries(scale);
    rest_ = scale / of_queries;
    const TileRows query_rows{arrays.queries, all_queries, queries, width_};
    const TileRows grad_rows{arrays.grad_out, all_queries, queries, width_};
    left_queries_ = pack_left_rows(query_rows, of_queries, query_words_);
    left_grads_ = pack_left_rows(grad_rows, 1, grad_words_);
    turned_queries_ = pack_left_tokens(query_rows, query_tokens_);
    turned_grads_ = pack_left_tokens(grad_rows, grad_tokens_);
  }
  void pack_keys(const TokenList& at, int64_t columns) {
    const TileRows keys{arrays_.keys, at, columns, width_}, values{arrays_.values, at, columns, width_};
    keys_ = pack_right_columns(keys, key_words_);
    values_ = pack_right_columns(values, value_words_);
    right_keys_ = pack_right_tokens(keys, key_tokens_);
    fill(grad_keys_, 0, padded() * kBlockColumns, 0);
    fill(grad_values_, 0, padded() * kBlockColumns, 0);
  }

  // The block's scores and the gradients of its weights.
  void score(const DenseBlock& block, float* s, float* g) const {
    multiply_left(left_queries_, keys_, block, s);
    multiply_left(left_grads_, values_, block, g);
    scale_block(block, rest_, s);
  }

  // The block's scores and gradients of weights, which the transform makes weights and gradients of scores, as factors;
  // row_of(r): what it needs of a row.
  template <class Transform, class RowOf>
  void split_backward(const Transform& transform, const DenseBlock& block, const float* s, const float* g,
                      const RowOf& row_of) const {
    const Factors to = factors(block);
    const int64_t n = block.part().end;
    for (int64_t r = 0; r < block.rows; r += 2) {
      const bool both = r + 1 < block.rows;
      const BackwardRow rows[2] = {row_of(r), row_of(both ? r + 1 : r)};
      const auto weighed = [&](int of, int64_t j) {
        if (of == 1 && !both) return Weighed{set(0), set(0)};
        const int64_t at = (r + of) * kBlockStride + j;
        Weighed x{load(s + at), load(g + at)};
        transform.backward(x.weight, x.grad, rows[of]);
        x.grad = x.grad * set(scale_);
        return x;
      };
      int64_t j = 0;
      for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
        to.put(r, j, {weighed(0, j), weighed(1, j)}, {weighed(0, j + kLanes), weighed(1, j + kLanes)});
      }
      if (j < n) to.put_last(r, j, {weighed(0, j), weighed(1, j)});
    }
    to.end(block.rows);
  }
  // Splits weights and gradients of scores that are computed already.
  void split(const DenseBlock& block, const float* weights, const float* grads) const {
    struct Ready {
      void backward(F&, F&, const BackwardRow&) const {}
    };
    split_backward(Ready{}, block, weights, grads, [](int64_t) { return BackwardRow{set(0), set(0), set(0)}; });
  }

  // Adds the factors' products to the gradients of keys and values, and to the block's grad_queries [rows][padded()].
  void add(const DenseBlock& block, float* grad_queries) {
    const Factors of = factors(block);
    const TileFactor right_weights = of.weights.factor(), right_grads = of.grads.factor();
    const TileFactor left_grads = of.grad_rows.factor();
    const int64_t tall = tiles_of(width_), depth = deep_of(block.rows);
    multiply_by_tiles<Split::kLeft>(
        {left_grads, right_keys_, grad_queries, padded(), high_of(block), tall, deep_of(block.columns), true});
    multiply_by_tiles<Split::kRight>({from(turned_queries_, block.first / 2), right_grads, grad_keys_, kBlockColumns,
                                      tall, wide_of(block), depth, true});
    multiply_by_tiles<Split::kRight>({from(turned_grads_, block.first / 2), right_weights, grad_values_, kBlockColumns,
                                      tall, wide_of(block), depth, true});
  }

  // The sums for the block of keys, [columns][padded width].
  void take_sums(int64_t columns, float* grad_keys, float* grad_values) const {
    turn(grad_keys_, columns, grad_keys);
    turn(grad_values_, columns, grad_values);
  }

 private:
  struct Weighed {
    F weight, grad;
  };
  struct TwoRows {
    Weighed first, second;  // of two rows
  };
  struct Factors {
    SplitColumns weights, grads;
    SplitRows grad_rows;

    void put(int64_t r, int64_t j, const TwoRows& a, const TwoRows& b) const {
      put_columns(r, j, a);
      put_columns(r, j + kLanes, b);
      grad_rows.at(r, j, a.first.grad, b.first.grad);
      grad_rows.at(r + 1, j, a.second.grad, b.second.grad);
    }
    void put_last(int64_t r, int64_t j, const TwoRows& a) const {
      put_columns(r, j, a);
      grad_rows.last(r, j, a.first.grad);
      grad_rows.last(r + 1, j, a.second.grad);
    }
    void end(int64_t rows) const { weights.end(rows), grads.end(rows); }

   private:
    void put_columns(int64_t r, int64_t j, const TwoRows& a) const {
      weights.at(r, j, a.first.weight, a.second.weight);
      grads.at(r, j, a.first.grad, a.second.grad);
    }
  };
  Factors factors(const DenseBlock& block) const {
    return {SplitColumns(block.rows, block.columns, weights_), SplitColumns(block.rows, block.columns, grads_),
            SplitRows(block.rows, block.columns, grad_rows_)};
  }
  int64_t padded() const { return round_up(width_, kLanes); }
  static TileFactor from(TileFactor factor, int64_t floats) {
    factor.data += floats;
    return factor;
  }
  void multiply_left(const TileFactor& left, const TileFactor& right, const DenseBlock& block, float* out) const {
    multiply_by_tiles<Split::kNone>({from(left, block.first * left.row), right, out, kBlockStride, high_of(block),
                                     wide_of(block), tiles_of(width_ / 2)});
  }
  void turn(const float* sums, int64_t columns, float* out) const {
    for (int64_t i = 0; i < padded(); i += kLanes) {
      for (int64_t t = 0; t < columns; t += kLanes) {
        F square[kLanes];
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) square[r] = load(sums + (i + r) * kBlockColumns + t);
        transpose(square);
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) store(out + (t + r) * padded() + i, square[r]);
      }
    }
  }

  int64_t width_;
  float *query_words_, *grad_words_, *query_tokens_, *grad_tokens_;  // of all queries
  float *key_words_, *value_words_, *key_tokens_;                    // of a block of keys
  float *weights_, *grads_, *grad_rows_;                             // of a block
  float *grad_keys_, *grad_values_;                                  // [padded width][kBlockColumns]
  Arrays arrays_;
  TileFactor left_queries_, left_grads_, turned_queries_, turned_grads_, keys_, values_, right_keys_;
  float scale_ = 1, rest_ = 1;
};
static_assert(kBlockRows % kTilePairs == 0 && kBlockColumns % kTilePairs == 0);

}  // namespace
}  // namespace fovea::kernels
