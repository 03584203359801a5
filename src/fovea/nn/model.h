#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/nn/embedding.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/stepper.h"
#include "fovea/spec/model_config.h"

// The Transformer on packed batches: an encoder, a decoder, or both with cross-attention between them. T tokens of all
// sequences without padding, offsets [B + 1] int64 on the CPU. M = dim_emb. Everything is computed by the operators of
// ops/, in the type of the parameters.
//
// Names of parameters, all stable (they are the keys of model.safetensors). A model of both sides has "encoder." or
// "decoder." before the names of a side.
//   embeddings.weight [V, M]                  of each side; without a side's name if both share it
//   features.{weight [M, F], bias [M]}        in place of the embeddings of an encoder that reads vectors
//   positions.weight [max_positions, M]       learned positions only
//   positions.{rows, columns, channels}       positions of images only, see positions.h
//   token_types.weight [token_types, M]       of the encoder, if there are any
//   embedding_norm.{weight, bias} [M]         of the encoder, --embedding-norm only
//   layers..., norm...                        see stack.h; cross-attention in the decoder of a model of both sides
//   output.weight [V, M], output.bias [V]     of the decoder, but always without its name; no weight if it is tied, no
//                                             bias unless --transformer-biases is all and --output-bias learned
namespace fovea::nn {

class MemoryPass;       // memory.h
struct PrepackedStack;  // stack.h

// The inputs of a model that are not text.
struct MediaInput {
  VectorInput vectors = {};               // of the encoder, in place of tokens
  std::vector<int64_t> image_shape = {};  // height, width, channels of the images whose values a decoder with the
                                          // positions "image" reads
};

struct DecoderInput {
  at::Tensor tokens, offsets;                     // [T] int64, [B + 1]
  at::Tensor encoded = {}, encoded_offsets = {};  // what encode() made of the other side, if the model has one
  std::shared_ptr<MemoryPass> memory = nullptr;   // what it remembers of the sequences' streams, if anything
};

class ModelImpl : public torch::nn::Module {
 public:
  // `config` is one that validate() lets pass, with the sizes of the vocabularies; a model of both sides has two of
  // them, or one if the encoder reads vectors. Initialises by `seed` alone (counter-based: the same weights on every
  // machine and thread count); without one, all weights are 0, to be loaded.
  ModelImpl(const ModelConfig& config, std::optional<int64_t> seed, const MediaInput& media = {});
  ~ModelImpl() override;

  const ModelConfig& config() const;

  // Replaces mechanisms in both phases (translate --attention topk(8)). Throws an Error, and changes nothing, if one
  // needs parameters that the model lacks, is for a side that it lacks, or cannot be used where it is to go.
  void override_attention(const AttentionOverride& mechanisms);

  // Each token of the decoder sees itself and the `keys` - 1 tokens before it at most, whatever the mechanisms allow.
  void limit_reach(int64_t keys);

  // Splits the encoder's text this way if its mechanisms need clauses and the pass has none of its own.
  void split_clauses_by(ClauseSplitter splitter);

  // From now on the products of all layers are in int8, with the weights of this moment, and have no gradients. The
  // output layer's are as the caller computes them.
  void use_int8();

  // From now on encode() and the projections of what it makes, in start(), use the weights of this moment, laid out
  // once, to the same bits and without gradients. It costs their memory again; many small passes gain.
  void freeze_encoder();

  // -> [T, M]: every token of the encoder sees its sequence.
  at::Tensor encode(const EncoderInput& input, const ForwardContext& context);

  // The embeddings and the outputs of the encoder's first `count` layers, [T, M] each, in evaluation (see
  // Stack::first_layers).
  std::vector<at::Tensor> first_layers(const EncoderInput& input, int64_t count);

  // Teacher forcing -> hidden [T, M] before the output layer: a token of the decoder sees itself and the tokens before
  // it in its sequence, the memory of the sequence, and its sequence of the other side.
  at::Tensor decode(const DecoderInput& input, const ForwardContext& context);

  // The output layer: logits = hidden weight^T + bias before their soft cap, weight [V, M], bias [V], undefined if the
  // model has none.
  at::Tensor output_weight() const;
  at::Tensor output_bias() const;
  ops::OutputLayer output_layer() const;  // these, with the soft cap of the logits

  // Token by token, without gradients: see stepper.h. The decoder's layers are laid out once and keep the weights of
  // that moment.
  std::shared_ptr<const PrepackedStack> pack(
      ops::PrepackedLayer::Format format = ops::PrepackedLayer::Format::kExact) const;
  // `rows` empty rows, each with keys and values in a range of its own (kApart), or sharing them (kShared: beams).
  std::shared_ptr<Stepper> start(int64_t rows, const std::shared_ptr<const PrepackedStack>& layers,
                                 StepRows kind = StepRows::kApart, const StreamCut& cut = {},
                                 CacheType cache = CacheType::kModel) const;
  // The decoder's layers whose cache can be of another type than the model's; 0 on other devices than the CPU.
  int64_t count_narrow_layers() const;
  // Starts with another side, which is projected once: row r reads its sequence sentences[r], in ascending order, here
  // and after Stepper::reorder().
  std::shared_ptr<Stepper> start(const OtherSide& other, const std::vector<int64_t>& sentences,
                                 const std::shared_ptr<const PrepackedStack>& layers) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
TORCH_MODULE(Model);

}  // namespace fovea::nn
