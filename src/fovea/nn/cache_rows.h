#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "fovea/nn/attention.h"
#include "fovea/nn/stepper.h"
#include "fovea/ops/narrow_rows.h"

namespace fovea::nn {

// Whether the heads of a token or the tokens of a head lie side by side in a buffer. A step over a long sequence reads
// all tokens of a head, and takes half the time where they follow one another.
enum class CacheLayout : uint8_t { kTokensFirst, kHeadsFirst };

// A range of tokens and its place in a new buffer.
struct TokenMove {
  int64_t from, to, count;
};

// The buffer of the keys and values of one layer, [tokens, 2, H, D].
class CacheRows {
 public:
  struct Shape {
    int64_t heads, head_dim;
    at::TensorOptions options;  // of the model
    CacheType type;
    CacheLayout layout = CacheLayout::kTokensFirst;  // of the model's type; narrower ones have their heads first
  };
  CacheRows() = default;
  CacheRows(const Shape& shape, int64_t tokens);

  bool is_defined() const { return data_.defined(); }
  bool is_narrow() const { return is_narrow_; }
  int64_t tokens() const { return data_.defined() ? data_.size(0) : 0; }
  int64_t bytes() const;
  // Keys (0) or values (1) in the model's type, [tokens, H, D]; not of a narrow buffer.
  at::Tensor half(int64_t which) const { return data_.select(1, which); }
  ops::NarrowRows narrow_half(int64_t which) const;

  // Writes kept [T, 2, H, D] to the tokens `places` [T], or if they are undefined to `first`, first + 1, ...
  void write(const at::Tensor& kept, const at::Tensor& places, int64_t first);
  void copy(const TokenMove& move);
  // Take over tokens of another buffer of this shape, which may be empty.
  void take(const CacheRows& from, std::span<const TokenMove> moves);
  void take(const CacheRows& from, const at::Tensor& tokens);  // to 0, 1, ...

 private:
  at::Tensor data_, steps_;  // steps [tokens, 2, H] of int8
  bool is_narrow_ = false;
};

// Whether steps of this attention can read narrow keys and values: plain softmax over all keys.
bool reads_narrow_rows(const Attention& attention);

// Attention over narrow keys and values of sequences that have got some tokens each.
struct NarrowAttention {
  const CacheRows& rows;
  at::Tensor offsets;          // [B + 1]: the new tokens of each sequence
  at::Tensor begins, lengths;  // [B]: the places of their keys, new ones too
};
// q [T, H, D] of the new tokens -> [T, H, D]. A token's result does not depend on the other sequences.
at::Tensor attend_narrow(const at::Tensor& q, const NarrowAttention& keys);

}  // namespace fovea::nn
