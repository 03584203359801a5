#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "fovea/nn/cross_steps.h"
#include "fovea/nn/embedding.h"
#include "fovea/nn/routing_steps.h"
#include "fovea/nn/ssru.h"
#include "fovea/nn/step_cache.h"

namespace fovea::nn {

// The way in which a model that was trained on segments with memory reads a text: in segments of this number of tokens,
// each of which sees the tokens of its segment up to itself and `memory` tokens before the segment. Positions that are
// added to embeddings count from the segment's beginning. 0: in one piece.
struct StreamCut {
  int64_t segment = 0, memory = 0;
};

// The stack of a model that makes text, run on R rows a few tokens at a time, without gradients: beam search, sampling.
// It reads its model, which must live longer and keep its weights.
class Stepper {
 public:
  struct Parts {
    const Stack& stack;
    const Embedding& embedding;
    std::shared_ptr<const PrepackedStack> layers;  // of `stack`
    StreamCut cut = {};
    CacheType cache = CacheType::kModel;  // of the layers that reads_narrow_rows() says can have another
  };
  Stepper(const Parts& parts, StepCache::Rows kind, int64_t rows, std::optional<CrossSteps> cross = std::nullopt);

  // tokens [R] -> hidden [R, M]; equal to the last row of a full pass on the tokens so far, or with a cut to that of
  // passes over its segments with their memory.
  at::Tensor step(const at::Tensor& tokens);
  // tokens [T], offsets [R + 1]: row r grows by tokens offsets[r] ... offsets[r + 1] - 1, at least one of them. Returns
  // the hidden state of each row's last token, [R, M]. Not for a stack with cross-attention.
  at::Tensor prefill(const at::Tensor& tokens, const at::Tensor& offsets);
  // Like prefill(), but returns the hidden state of every token, [T, M].
  at::Tensor read(const at::Tensor& tokens, const at::Tensor& offsets);
  // Row r continues what was row parents[r]. The number of rows may grow or shrink.
  void reorder(const std::vector<int64_t>& parents);
  // Whether rows can be added: routed heads begin all rows at once.
  bool can_add() const;
  // Adds empty rows behind the others, or for a stack with cross-attention one for each sentence of `other`.
  void add_rows(int64_t count);
  void add_sentences(const OtherSide& other);

  int64_t rows() const { return cache_.rows(); }
  std::span<const int64_t> lengths() const { return cache_.lengths(); }  // tokens of each row so far

 private:
  // A row's new tokens, of which there may be none, lie in one segment.
  at::Tensor run(const at::Tensor& tokens, const at::Tensor& offsets);
  at::Tensor read_segments(const at::Tensor& tokens, const at::Tensor& offsets);
  // The first token that each row's next tokens see.
  std::vector<int64_t> first_seen() const;
  // Names the rows' keys in the options of each layer's self-attention, once the cache has the new tokens' places.
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
  std::vector<std::shared_ptr<RoutingSteps>> routing_;  // of each layer's self-attention, or null
};

}  // namespace fovea::nn
