#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/nn/cache_rows.h"
#include "fovea/nn/screened_keys.h"
#include "fovea/nn/stepper.h"

namespace fovea::nn {

// The state of a stack's self-attention between steps: keys and values of the tokens so far, for all layers, and which
// of them belong to each row. Rows may have different lengths. Without layers it counts the tokens of each row alone.
class StepCache {
 public:
  using Rows = StepRows;
  struct Shape {
    int64_t layers, heads, head_dim;
  };
  StepCache(Rows kind, int64_t rows, const Shape& shape, const at::TensorOptions& options);

  // Keeps this layer's keys and values in a narrower type; before any token is written, and not of kShared rows.
  void narrow(size_t layer, CacheType type);
  bool is_narrow(size_t layer) const { return types_[layer] != CacheType::kModel; }
  const CacheRows& layer_rows(size_t layer) const { return buffers_[layer]; }

  int64_t rows() const { return static_cast<int64_t>(lengths_.size()); }
  std::span<const int64_t> lengths() const { return lengths_; }  // tokens of each row

  // From a length of some hundred tokens on, the cache keeps an 8-bit copy of this layer's keys, on the CPU in
  // float32 and bfloat16.
  void screen_keys(size_t layer);
  // The copy, or one without tensors.
  ops::KeyScreen key_screen(size_t layer) const;

  // Row r grows by offsets[r + 1] - offsets[r] tokens, [R + 1] int64.
  void append(const at::Tensor& offsets);
  // Writes the keys and values of one layer for the tokens that the last append() added: stacked [T, .. + 2 H, D], of
  // which the heads before them, q, are not kept.
  void write(size_t layer, const at::Tensor& stacked);
  // Row r becomes what row parents[r] was. Tokens that have lost all their rows make room for others.
  void inherit(std::span<const int64_t> parents);
  // Adds empty rows behind the others.
  void add_rows(int64_t count);
  // Apart: a copy of some tokens of a row, for each layer.
  std::vector<CacheRows> copy_tokens(int64_t row, const TokenRange& range) const;
  // Apart: the row grows by tokens that copy_tokens() returned.
  void paste_tokens(int64_t row, const std::vector<CacheRows>& tokens);
  int64_t room() const {
    return !buffers_.empty() && buffers_[0].is_defined() ? buffers_[0].tokens() : 0;
  }  // tokens that fit the buffers

  // The keys or values of one layer, [tokens, H, D]; not of a narrow one.
  at::Tensor keys(size_t layer) const { return half(layer, 0); }
  at::Tensor values(size_t layer) const { return half(layer, 1); }
  // The places in keys() of the keys of each row: k_begins, k_lengths and k_tokens of ops::attention.
  struct Keys {
    at::Tensor begins, lengths;        // [R]
    std::optional<at::Tensor> tokens;  // shared
  };
  // The places of each row r without its first first[r] tokens.
  Keys key_places(std::span<const int64_t> first) const;

 private:
  at::Tensor half(size_t layer, int64_t which) const;
  void append_tokens(const int64_t* bounds);
  void append_shared(const int64_t* bounds);
  void append_apart(const int64_t* bounds);
  void inherit_shared(std::span<const int64_t> parents);
  void inherit_apart(std::span<const int64_t> parents);
  void make_room(int64_t length);  // of each row: capacity_ grows
  // Shared: makes room for `count` more tokens. If most of the tokens have lost all their rows, only the others stay.
  void make_room_for_tokens(int64_t count);
  std::vector<int64_t> live_tokens() const;  // shared: the tokens that rows have, ascending
  void keep_tokens(const std::vector<int64_t>& live, int64_t room);
  void shrink();  // apart: after rows have left
  // Apart: moves the rows to the first of `slots` slots of `capacity` tokens each. The other slots are free.
  void move_rows(int64_t slots, int64_t capacity);
  CacheRows new_buffer(size_t layer, int64_t tokens) const;
  void move_to_new_buffers(int64_t tokens, std::span<const TokenMove> moves);
  // Copies the keys of the tokens in use, for all layers that keep a copy.
  void begin_screens();
  void rebuild_screens(std::span<const TokenRange> used);

  Rows kind_;
  Shape shape_;
  at::TensorOptions options_;
  // One for each layer; apart: tokens = slots * capacity. They are not one buffer, because memory that one
  // layer leaves when all of them grow has room for the next.
  std::vector<CacheRows> buffers_;
  std::vector<CacheType> types_;                      // of each layer
  std::vector<std::optional<ScreenedKeys>> screens_;  // of each layer
  bool has_screens_ = false;                          // a row has become long enough
  std::vector<int64_t> lengths_;                      // [R]
  int64_t capacity_ = 0;                              // tokens of a row that lists_, or its range, has room for
  int64_t first_ = 0, count_ = 0;                     // tokens of the last append(), where they lie side by side
  at::Tensor places_;                                 // [T]: those tokens where they do not; else undefined
  // Shared:
  int64_t used_ = 0;  // tokens of each buffer
  at::Tensor lists_;  // [R, capacity]: the tokens of each row
  // Apart:
  std::vector<int64_t> slots_;       // [R]: row r has tokens slots_[r] * capacity_ ...
  std::vector<int64_t> free_slots_;  // the other slots of the buffers, which no row has
};

// The tokens of a step of one attention whose heads choose their keys: where each row's keys lie in its cache, those of
// the new tokens among them, and how many of the row's first tokens are left out; a row's keys are counted behind
// these.
struct StepPlaces {
  at::Tensor offsets;  // [R + 1], of the queries
  StepCache::Keys keys;
  std::vector<int64_t> first;  // [R]
};

}  // namespace fovea::nn
