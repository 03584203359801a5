#pragma once
#include "fovea/kernels/attention/cpu/dense_common-inl.h"

// The products of cpu-dense by tiles.
namespace fovea::kernels {
namespace {

// Of a block's [rows][columns], in tiles.
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

// Of a task's queries, against a block of keys at a time.
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
    {
      const TileSession session;
      multiply_by_tiles<Split::kNone>(
          {left, keys_, s, kBlockStride, high_of(block), wide_of(block), tiles_of(width_ / 2)});
    }
    scale_block(block, rest_, s);
  }
  // out [rows][padded width] += weights . values.
  void add_values(const DenseBlock& block, const float* weights, float* out) const {
    const TileFactor left = split_left_rows({weights, kBlockStride, block.rows, block.part().end}, weight_words_);
    const TileSession session;
    multiply_by_tiles<Split::kLeft>(
        {left, values_, out, round_up(width_, kLanes), high_of(block), tiles_of(width_), deep_of(block.columns), true});
  }

 private:
  int64_t width_;
  float *query_words_, *key_words_, *value_words_, *weight_words_;
  HeadRows key_rows_, value_rows_;
  TileFactor queries_, keys_, values_;
  float rest_ = 1;  // of the scale
};

}  // namespace
}  // namespace fovea::kernels
