#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/nn/forward_context.h"
#include "fovea/nn/stepper.h"
#include "fovea/spec/decoder_config.h"

// The decoder-only Transformer on packed batches: T tokens of all sequences without padding, offsets [B + 1] int64 on
// the CPU. M = dim_emb. Everything is computed by the operators of ops/, in the type of the parameters.
//
// Names of parameters, all stable (they are the keys of model.safetensors):
//   embeddings.weight [V, M]
//   positions.weight [max_positions, M]      learned positions only
//   layers..., norm...                       those of stack.h, without cross-attention
//   output.weight [V, M]                     unless tied
//   output.bias [V]
namespace fovea::nn {

class DecoderOnlyImpl : public torch::nn::Module {
 public:
  // `config` is one that validate() lets pass, with the vocabulary's size. Initialises by `seed` alone (counter-based:
  // the same weights on every machine and thread count); without one, all weights are 0, to be loaded.
  DecoderOnlyImpl(const DecoderConfig& config, std::optional<int64_t> seed);
  ~DecoderOnlyImpl() override;

  const DecoderConfig& config() const;

  // Replaces mechanisms in both phases. Throws an Error, and changes nothing, if one needs parameters that the model
  // lacks, is for an encoder, or cannot be used.
  void override_attention(const AttentionOverride& mechanisms);

  // Each token sees itself and the `keys` - 1 tokens before it at most, whatever the mechanisms allow; again after
  // override_attention().
  void limit_reach(int64_t keys);

  // tokens [T] int64 -> hidden [T, M] before the output layer. A token sees itself, those before it in its sequence,
  // and with `memory` also what that remembers of the sequence's stream.
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& offsets, const ForwardContext& context,
                     const std::shared_ptr<MemoryPass>& memory = nullptr);

  // The output layer: logits = hidden weight^T + bias, weight [V, M], bias [V].
  at::Tensor output_weight() const;
  at::Tensor output_bias() const;

  // Generation, without gradients: see stepper.h. The layers are laid out once and keep the weights of that moment.
  std::shared_ptr<const PackedStack> pack(ops::PackedLayer::Format format = ops::PackedLayer::Format::kExact) const;
  // `rows` empty rows, each with keys and values in a range of its own (kApart), or sharing them (kShared: beams).
  std::shared_ptr<Stepper> start(int64_t rows, const std::shared_ptr<const PackedStack>& layers,
                                 StepCache::Rows kind = StepCache::Rows::kApart, const StreamCut& cut = {}) const;
  // A full pass over each row's next tokens, at least one per row, that fills the caches: tokens [T], offsets [R + 1]
  // -> hidden [R, M] of each row's last token. Rows may differ in length, and may have tokens already.
  at::Tensor prefill(Stepper& state, const at::Tensor& tokens, const at::Tensor& offsets);
  // tokens [R] -> hidden [R, M]; equal to the last rows of forward() on the tokens so far.
  at::Tensor step(Stepper& state, const at::Tensor& tokens);
  // Row r continues what was row parents[r]; the number of rows may grow or shrink.
  void reorder(Stepper& state, const std::vector<int64_t>& parents);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
TORCH_MODULE(DecoderOnly);

}  // namespace fovea::nn
