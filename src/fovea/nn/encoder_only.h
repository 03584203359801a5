#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/nn/forward_context.h"
#include "fovea/spec/encoder_config.h"

// The encoder-only Transformer on packed batches: T tokens of all sequences without padding, offsets [B + 1] int64 on
// the CPU. M = dim_emb. Everything is computed by the operators of ops/, in the type of the parameters.
//
// Names of parameters, all stable (they are the keys of model.safetensors):
//   embeddings.weight [V, M]
//   positions.weight [max_positions, M]      learned positions only
//   token_types.weight [token_types, M]      if there are any
//   embedding_norm.{weight, bias} [M]        --embedding-norm only
//   layers..., norm...                       those of stack.h, without cross-attention
namespace fovea::nn {

// The inputs of the model.
struct EncoderInput {
  at::Tensor tokens, offsets;  // [T] int64, [B + 1] int64 on the CPU
  at::Tensor types = {};       // [T] int64, below token_types; undefined: all 0
};

class EncoderOnlyImpl : public torch::nn::Module {
 public:
  // `config` is one that validate() lets pass, with the vocabulary's size. Initialises by `seed` alone (counter-based:
  // the same weights on every machine and thread count); without one, all weights are 0, to be loaded.
  EncoderOnlyImpl(const EncoderConfig& config, std::optional<int64_t> seed);
  ~EncoderOnlyImpl() override;

  const EncoderConfig& config() const;

  // Replaces mechanisms in both phases. Throws an Error, and changes nothing, if one needs parameters that the model
  // lacks, is for a decoder, or cannot be used.
  void override_attention(const AttentionOverride& mechanisms);

  // -> [T, M]: every token sees its sequence.
  at::Tensor forward(const EncoderInput& input, const ForwardContext& context);

  // The embeddings and the outputs of the first `count` layers, [T, M] each, in evaluation (see Stack::first_layers).
  std::vector<at::Tensor> first_layers(const EncoderInput& input, int64_t count);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
TORCH_MODULE(EncoderOnly);

}  // namespace fovea::nn
