#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// What incremental decoding keeps between tokens. A token's keys and values are written once and never moved; a row is
// the list of those it continues, so that the beams of a sentence share their prefix in memory and in the caches.
namespace fovea::nn {

// Keys and values of the decoder's self-attention for all layers: [L, tokens, 2, H, D].
class KeyValueCache {
 public:
  KeyValueCache(int64_t layers, int64_t heads, int64_t head_dim, const at::TensorOptions& options)
      : layers_(layers), heads_(heads), head_dim_(head_dim), options_(options) {}

  // Room for so many more tokens; returns the first one's number. Doubles, so that growth is amortised.
  int64_t extend(int64_t count);

  // stacked [R, 3, H, D]: its k and v become tokens first ... first + R - 1 of one layer.
  void write(size_t layer, int64_t first, const at::Tensor& stacked);

  // Of a layer, [tokens, H, D].
  at::Tensor keys(size_t layer) const { return half(layer, 0); }
  at::Tensor values(size_t layer) const { return half(layer, 1); }

 private:
  at::Tensor half(size_t layer, int64_t which) const;

  int64_t layers_, heads_, head_dim_;
  int64_t used_ = 0;  // tokens
  at::TensorOptions options_;
  at::Tensor buffer_;
};

// The tokens of a cache that each row continues, as many for every row.
class Prefixes {
 public:
  explicit Prefixes(size_t rows = 0) : rows_(rows) {}

  // Row r goes on with token first + r.
  void append(int64_t first);
  // Row r becomes what row parents[r] was.
  void inherit(const std::vector<int64_t>& parents);

  int64_t length() const { return length_; }
  // [R * length], row after row.
  const std::vector<int64_t>& tokens() const { return tokens_; }

 private:
  size_t rows_;
  int64_t length_ = 0;
  std::vector<int64_t> tokens_;
};

}  // namespace fovea::nn
