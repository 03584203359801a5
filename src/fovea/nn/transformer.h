#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/nn/forward_context.h"
#include "fovea/ops/packed_layer.h"
#include "fovea/spec/model_config.h"

// The encoder-decoder Transformer on packed batches: T tokens of all sentences without padding, offsets [B + 1] int64
// on the CPU. M = dim_emb. Everything is computed by the operators of ops/, in the type of the parameters.
//
// Names of parameters, all stable (they are the keys of model.safetensors):
//   embeddings.weight [V, M]                           shared by both sides, or else
//   encoder.embeddings.weight, decoder.embeddings.weight
//   encoder.positions.weight, decoder.positions.weight [max_positions, M]      learned positions only
//   encoder.features.{weight [M, F], bias [M]}         instead of encoder.embeddings in a model that reads vectors
//   encoder..., decoder...                             those of stack.h, the decoder's with cross-attention
//   output.weight [V, M]                               unless tied
//   output.bias [V]
namespace fovea::nn {

class Stepper;
struct PackedStack;

// Inputs of the encoder instead of tokens: vectors, such as the parts of an image.
struct VectorInput {
  int64_t width = 0;   // F, numbers of a vector; 0: the encoder reads tokens
  int64_t places = 0;  // vectors of an input, which get learned positions; 0: any number, without positions
};

class TransformerImpl : public torch::nn::Module {
 public:
  // `config` is one that validate() lets pass, with the sizes of both vocabularies. Initialises by `seed` alone
  // (counter-based: the same weights on every machine and thread count); without one, all weights are 0, to be loaded.
  // A model that reads vectors has one vocabulary, the target's, and --transformer-positions are its decoder's.
  TransformerImpl(const ModelConfig& config, std::optional<int64_t> seed, const VectorInput& vectors = {});
  ~TransformerImpl() override;

  const ModelConfig& config() const;

  // Mechanisms replaced, in both phases (translate --attention topk(8)). Throws an Error, and changes nothing, if one
  // needs parameters that the model lacks or cannot be used where it is to go.
  void override_attention(const AttentionOverride& mechanisms);

  // How the encoder's text is split where its mechanisms need clauses and the pass has none of its own.
  void split_clauses_by(ClauseSplitter splitter);

  // tokens [T_src] int64, or vectors [T_src, F] of the parameters' type -> memory [T_src, M].
  at::Tensor encode(const at::Tensor& tokens, const at::Tensor& offsets, const ForwardContext& context);

  // The embeddings and the outputs of the first `count` layers of the encoder, [T_src, M] each, in evaluation.
  std::vector<at::Tensor> encoder_layers(const at::Tensor& tokens, const at::Tensor& offsets, int64_t count);

  // Teacher forcing: inputs [T_trg] (</s>, y1, ...), memory of encode -> hidden [T_trg, M] before the output layer.
  at::Tensor decode(const at::Tensor& inputs, const at::Tensor& offsets, const at::Tensor& memory,
                    const at::Tensor& memory_offsets, const ForwardContext& context);

  // The output layer: logits = hidden weight^T + bias, weight [V, M], bias [V].
  at::Tensor output_weight() const;
  at::Tensor output_bias() const;

  // Incremental decoding of R rows (hypotheses), without gradients. A row grows by one token per step; the
  // encoder's side is projected once and shared by a sentence's rows.
  using DecoderState = Stepper;
  // The layers that step() goes through, laid out for it; their weights do not change while this lives.
  using PackedDecoder = PackedStack;
  std::shared_ptr<const PackedDecoder> pack_decoder(ops::PackedLayer::Format format) const;
  // rows[r] is the sentence (of encode) that row r translates, in ascending order, here and after reorder().
  std::shared_ptr<DecoderState> start(const at::Tensor& memory, const at::Tensor& memory_offsets,
                                      const std::vector<int64_t>& rows,
                                      const std::shared_ptr<const PackedDecoder>& layers);
  // tokens [R] -> hidden [R, M]; equal to the last row of decode() on the tokens so far.
  at::Tensor step(DecoderState& state, const at::Tensor& tokens);
  // Row r continues what was row parents[r]; the number of rows may shrink, finished rows are left out.
  void reorder(DecoderState& state, const std::vector<int64_t>& parents);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
TORCH_MODULE(Transformer);

}  // namespace fovea::nn
