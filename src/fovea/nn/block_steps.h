#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/step_cache.h"

namespace fovea::nn {

// The heads with blocktopk(b,k) of one causal attention, step by step: for each row the summaries of its whole blocks
// of keys, so that a step reads these and the keys of the blocks that it chooses. It chooses what the full pass does.
// Rows that continue the same row share its summaries.
class BlockSteps {
 public:
  // Null if no head chooses blocks, or if kernels do not read the keys; ops::attention() then reads all of them.
  static std::unique_ptr<BlockSteps> of(const Attention& attention, int64_t rows, const at::TensorOptions& options);

  // Returns the lists of each head group with blocktopk, as ops::AttentionOptions::chosen_blocks has them. q [T, H, D],
  // keys [tokens, K, D], those of the next tokens among them.
  std::vector<at::Tensor> choose(const at::Tensor& q, const at::Tensor& keys, const StepPlaces& places);

  // Row r continues what was row parents[r].
  void inherit(std::span<const int64_t> parents);
  void add_rows(int64_t count);

 private:
  using Summary = std::shared_ptr<const std::vector<float>>;
  struct Row {
    int64_t first = 0;
    std::vector<Summary> blocks;
  };
  // One head group: heads begin ... begin + count - 1.
  struct Group {
    BlockChoice choice;
    int64_t begin = 0, count = 0;
    std::vector<Row> rows;
  };
  BlockSteps() = default;
  // Summarises the blocks of row `row` that have become whole.
  void summarise(Group& group, int64_t row, const at::Tensor& keys, const StepPlaces& places) const;

  std::vector<Group> groups_;
  int64_t heads_per_key_ = 1;
};

}  // namespace fovea::nn
