#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// For each head of a sequence: whether products of two arrays' rows go by pairs of bfloat16, which AVX-512 with bf16
// and ARM with bfdot multiply at twice the rate of floats. Forward, backward and all their tasks agree on it. The
// instruction takes numbers below the normal range for zero and makes such results zero, so a head goes in bfloat16
// only if neither can occur; and not if it has so few pairs of rows that finding out takes as long as it saves. All
// rows of a head decide, so its last bits depend on rows that a query does not see.
class Bf16Flags {
 public:
  // left: rows of queries; right: of keys, which lie where key_tokens says (as in AttentionForward).
  struct Factors {
    Rows<const void> left, right;
    const int64_t* key_tokens = nullptr;
  };
  // Heads for which it is false go by floats, unread; it depends on the sequence's lengths and the spec alone.
  using Pays = std::function<bool(int64_t sequence, int64_t head)>;

  Bf16Flags() = default;  // none
  Bf16Flags(const AttentionProblem& problem, const Factors& factors, const Pays& pays, Executor& executor);
  bool of(int64_t sequence, int64_t head) const {
    return !flags_.empty() && flags_[static_cast<size_t>(sequence * num_heads_ + head)] != 0;
  }

 private:
  int64_t num_heads_ = 0;
  std::vector<uint8_t> flags_;  // [sequences, heads]; empty: none
};

// The flags for products of queries with keys, and for products of gradients of outputs with values.
struct Bf16Products {
  Bf16Flags scores, weight_grads;
  Bf16Products() = default;  // none
  Bf16Products(const AttentionProblem& problem, const AttentionForward& in, const Bf16Flags::Pays& pays,
               Executor& executor)
      : scores(problem, {in.q, in.k, in.key_tokens}, pays, executor) {}
  Bf16Products(const AttentionProblem& problem, const AttentionBackward& in, const Bf16Flags::Pays& pays,
               Executor& executor)
      : scores(problem, {in.q, in.k}, pays, executor), weight_grads(problem, {in.grad_out, in.v}, pays, executor) {}
};

// For each head of a sequence: whether all products go by tiles, at the levels that have them. All its rows decide: its
// arrays may hold neither numbers that are not finite nor numbers so small that the tiles' zeros for numbers below the
// normal range could be seen. Sequences of few queries do not go by tiles.
class TiledHeads {
 public:
  TiledHeads() = default;  // none
  TiledHeads(const AttentionProblem& problem, const AttentionForward& in, Executor& executor)
      : TiledHeads(problem, {in.q}, {in.k, in.v}, executor) {}
  TiledHeads(const AttentionProblem& problem, const AttentionBackward& in, Executor& executor)
      : TiledHeads(problem, {in.q, in.grad_out}, {in.k, in.v}, executor) {}
  bool of(int64_t sequence, int64_t head) const {
    return !flags_.empty() && flags_[static_cast<size_t>(sequence * num_heads_ + head)] != 0;
  }

 private:
  using Arrays = std::vector<Rows<const void>>;
  TiledHeads(const AttentionProblem& problem, const Arrays& by_query, const Arrays& by_key, Executor& executor);
  int64_t num_heads_ = 0;
  std::vector<uint8_t> flags_;  // [sequences, heads]; empty: none
};

// Some tokens of an array of bfloat16, under one head: first, first + 1, ..., or places[first], places[first + 1], ...
struct Bf16Rows {
  const uint16_t* data = nullptr;  // of token 0
  int64_t stride = 0;              // between tokens
  int64_t first = 0, tokens = 0, width = 0;
  const int64_t* places = nullptr;
  const uint16_t* row(int64_t i) const { return data + (places == nullptr ? first + i : places[first + i]) * stride; }
};

template <Isa kIsa>
struct Bf16Scan {
  // The least exponent, as its bits stand for it (0: below the normal range), of numbers other than zero; 255: none.
  static int least_exponent(const Bf16Rows& rows);
  // The greatest one's; 255: infinity or NaN.
  static int greatest_exponent(const Bf16Rows& rows);
};

}  // namespace fovea::kernels
