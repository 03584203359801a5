#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/step_cache.h"

namespace fovea::nn {

// The indexer of one causal attention with dsa(k), step by step: for each row the keys of the indexer, so that a step
// projects the keys of its new tokens alone. It chooses what the full pass does. Rows that continue the same row share
// the keys of their past, except for the last few.
class IndexSteps {
 public:
  // Null if the attention has no indexer.
  static std::unique_ptr<IndexSteps> of(const Attention& attention, int64_t rows);

  // Returns the keys that the queries see, as ops::PairLists has them. q [T, H, D], keys [tokens, K, D], those of the
  // next tokens among them.
  at::Tensor choose(const at::Tensor& q, const at::Tensor& keys, const StepPlaces& places);

  // Row r continues what was row parents[r].
  void inherit(std::span<const int64_t> parents);
  void add_rows(int64_t count) { rows_.resize(rows_.size() + static_cast<size_t>(count)); }

 private:
  struct Row {
    int64_t first = 0, known = 0;   // tokens left out, and tokens whose keys are here
    std::vector<at::Tensor> whole;  // kPiece keys each, [kPiece, W]
    at::Tensor rest;                // fewer keys, or undefined
  };
  IndexSteps(const Attention& attention, int64_t rows, int64_t count)
      : attention_(attention), count_(count), rows_(static_cast<size_t>(rows)) {}
  void append(const at::Tensor& keys, const StepPlaces& places);

  const Attention& attention_;
  int64_t count_;
  std::vector<Row> rows_;
};

}  // namespace fovea::nn
