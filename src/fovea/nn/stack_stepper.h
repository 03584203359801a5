#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "fovea/nn/block_steps.h"
#include "fovea/nn/cross_steps.h"
#include "fovea/nn/embedding.h"
#include "fovea/nn/index_steps.h"
#include "fovea/nn/routing_steps.h"
#include "fovea/nn/ssru.h"
#include "fovea/nn/step_cache.h"
#include "fovea/nn/stepper.h"

namespace fovea::nn {

// The Stepper of a stack. It reads its model, which must live longer and keep its weights.
class StackStepper : public Stepper {
 public:
  struct Parts {
    const Stack& stack;
    const Embedding& embedding;
    std::shared_ptr<const PrepackedStack> layers;  // of `stack`
    StreamCut cut = {};
    CacheType cache = CacheType::kModel;  // of the layers that reads_narrow_rows() says can have another
  };
  StackStepper(const Parts& parts, StepRows kind, int64_t rows, std::optional<CrossSteps> cross = std::nullopt);

  at::Tensor step(const at::Tensor& tokens) override;
  at::Tensor prefill(const at::Tensor& tokens, const at::Tensor& offsets) override;
  at::Tensor read(const at::Tensor& tokens, const at::Tensor& offsets) override;
  void reorder(const std::vector<int64_t>& parents) override;
  bool can_add() const override;
  void add_rows(int64_t count) override;
  void add_sentences(const OtherSide& other) override;
  std::shared_ptr<const StepTokens> copy_tokens(int64_t row, int64_t first, int64_t count) const override;
  void paste_tokens(int64_t row, const StepTokens& tokens) override;
  int64_t rows() const override { return cache_.rows(); }
  std::span<const int64_t> lengths() const override { return cache_.lengths(); }

 private:
  // A row's new tokens, of which there may be none, lie in one segment.
  at::Tensor run(const at::Tensor& tokens, const at::Tensor& offsets);
  at::Tensor read_segments(const at::Tensor& tokens, const at::Tensor& offsets);
  // The first token that each row's next tokens see.
  std::vector<int64_t> first_seen() const;
  // Names the rows' keys in the options of each layer's self-attention, once the cache has the new tokens' places.
  void add_cache_rows(int64_t count);
  void place_keys(const at::Tensor& offsets, std::span<const int64_t> first);
  at::Tensor self_attention(size_t layer, const at::Tensor& x, const at::Tensor& positions);
  at::Tensor cross_attention(size_t layer, const at::Tensor& x) const;
  // Makes the tables long enough for the rows.
  void lengthen_tables();

  const Stack& stack_;
  const Embedding& embedding_;
  std::shared_ptr<const PrepackedStack> layers_;
  StreamCut cut_;
  StepCache cache_;
  std::optional<SsruSteps> ssru_;  // of a recurrent stack, whose cache then counts tokens alone
  std::optional<CrossSteps> cross_;
  std::vector<ops::AttentionOptions> options_;          // of each layer's self-attention
  std::vector<Attention::Tables> tables_;               // of each layer; longer than the rows
  StepPlaces places_;                                   // of the next tokens
  std::vector<std::unique_ptr<IndexSteps>> indexes_;    // of each layer's self-attention, or null
  std::vector<std::unique_ptr<BlockSteps>> blocks_;     // of each layer's self-attention, or null
  std::vector<std::shared_ptr<RoutingSteps>> routing_;  // of each layer's self-attention, or null
};

}  // namespace fovea::nn
