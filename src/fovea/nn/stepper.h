#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace fovea::nn {

// How the keys and values of a Stepper lie for its rows.
// kShared: a token is written once and never moved, and a row is a list of tokens. Rows that continue the same row
// (beams) share its tokens.
// kApart: each row has its tokens side by side in a range of its own, which no list names. A second row that continues
// the same row gets a copy.
enum class StepRows : uint8_t { kShared, kApart };

// The type in which a cache keeps keys and values: the model's, or a narrower one.
enum class CacheType : uint8_t { kModel, kBFloat16, kInt8 };
inline constexpr std::string_view kCacheTypes = "model|bfloat16|int8";  // in the order of the enumeration

// The way in which a model that was trained on segments with memory reads a text: in segments of this number of tokens,
// each of which sees the tokens of its segment up to itself and `memory` tokens before the segment. Positions that are
// added to embeddings count from the segment's beginning. 0: in one piece.
struct StreamCut {
  int64_t segment = 0, memory = 0;
};

// The side that cross-attention reads: [T_k, M] and offsets [B + 1].
struct OtherSide {
  at::Tensor encoded, offsets;
};

// A copy of the state that a Stepper has computed for some tokens.
class StepTokens {
 public:
  StepTokens() = default;
  virtual ~StepTokens() = default;
  StepTokens(const StepTokens&) = delete;
  StepTokens& operator=(const StepTokens&) = delete;
  virtual int64_t bytes() const = 0;
};

// The stack of a model that makes text, run on R rows a few tokens at a time, without gradients: beam search, sampling.
class Stepper {
 public:
  Stepper() = default;
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  // tokens [R] -> hidden [R, M]; equal to the last row of a full pass on the tokens so far, or with a cut to that of
  // passes over its segments with their memory.
  virtual at::Tensor step(const at::Tensor& tokens) = 0;
  // tokens [T], offsets [R + 1]: row r grows by tokens offsets[r] ... offsets[r + 1] - 1, at least one of them. Returns
  // the hidden state of each row's last token, [R, M]. Not for a stack with cross-attention.
  virtual at::Tensor prefill(const at::Tensor& tokens, const at::Tensor& offsets) = 0;
  // Like prefill(), but returns the hidden state of every token, [T, M].
  virtual at::Tensor read(const at::Tensor& tokens, const at::Tensor& offsets) = 0;
  // Row r continues what was row parents[r]. The number of rows may grow or shrink.
  virtual void reorder(const std::vector<int64_t>& parents) = 0;
  // Whether rows can be added: routed heads begin all rows at once.
  virtual bool can_add() const = 0;
  // Adds empty rows behind the others, or for a stack with cross-attention one for each sentence of `other`.
  virtual void add_rows(int64_t count) = 0;
  virtual void add_sentences(const OtherSide& other) = 0;

  // A copy of the state of `count` tokens of a row from the token `first` on. Only where rows can be added, and not
  // with cross-attention.
  virtual std::shared_ptr<const StepTokens> copy_tokens(int64_t row, int64_t first, int64_t count) const = 0;
  // The row grows by tokens that a Stepper of the same model computed behind the same tokens.
  virtual void paste_tokens(int64_t row, const StepTokens& tokens) = 0;

  virtual int64_t rows() const = 0;
  virtual std::span<const int64_t> lengths() const = 0;  // tokens of each row so far
};

}  // namespace fovea::nn
