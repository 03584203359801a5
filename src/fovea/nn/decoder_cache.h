#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// What incremental decoding keeps between tokens, by slot: a row owns a slot, and a reordering of rows copies only the
// slots that several rows continue.
namespace fovea::nn {

// Row numbers, or any others, as an int64 tensor on the CPU.
at::Tensor to_index(const std::vector<int64_t>& values);

// Keys and values of the decoder's self-attention for all layers: [L, slots, capacity, 2, H, D].
class KeyValueCache {
 public:
  KeyValueCache(int64_t layers, int64_t heads, int64_t head_dim, const at::TensorOptions& options)
      : layers_(layers), heads_(heads), head_dim_(head_dim), options_(options) {}

  // In tokens a slot.
  int64_t capacity() const { return buffer_.defined() ? buffer_.size(2) : 0; }

  // At least so many slots and tokens, the first `used` tokens of the slots kept. Doubles, so that growth is amortised.
  void reserve(int64_t slots, int64_t tokens, int64_t used);

  // stacked [R, 3, H, D]: its k and v become token `token` of the rows' slots in one layer.
  void append(size_t layer, int64_t token, const std::vector<int64_t>& slots, const at::Tensor& stacked);

  // The first `used` tokens of slots from[i] to slots to[i], which are disjoint from them.
  void copy(const std::vector<int64_t>& from, const std::vector<int64_t>& to, int64_t used);

  // All slots' keys or values of a layer as tokens [slots * capacity, H, D].
  at::Tensor keys(size_t layer) const { return half(layer, 0); }
  at::Tensor values(size_t layer) const { return half(layer, 1); }

 private:
  at::Tensor half(size_t layer, int64_t which) const;

  int64_t layers_, heads_, head_dim_;
  at::TensorOptions options_;
  at::Tensor buffer_;
};

// Which slot each row owns.
class Slots {
 public:
  const std::vector<int64_t>& of_rows() const { return of_rows_; }
  int64_t count() const { return count_; }

  // Row r owns slot r.
  void assign(size_t rows);

  struct Copies {
    std::vector<int64_t> from, to;
  };
  // Row r continues parents[r]. The first row to continue a parent keeps its slot; the others get free ones, to be
  // copied into.
  Copies inherit(const std::vector<int64_t>& parents);

 private:
  std::vector<int64_t> of_rows_;
  int64_t count_ = 0;
};

}  // namespace fovea::nn
