#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/layers.h"
#include "fovea/nn/transformer.h"

// What the two halves of the Transformer's implementation share: the full passes and incremental decoding.
//
// Names of parameters, all stable (they are the keys of model.safetensors). M = dim_emb, F = dim_ffn, H heads:
//   embeddings.weight [V, M]                           shared by both sides, or else
//   encoder.embeddings.weight, decoder.embeddings.weight
//   encoder.positions.weight, decoder.positions.weight [max_positions, M]      learned positions only
//   encoder.layers.I.self_attention.qkv.{weight [3 M, M], bias [3 M]}          q, k, v stacked in this order
//                                  .out.{weight [M, M], bias [M]}
//                                  .head_norm.{gain, gate, bias} [M], .alpha [H]    as the mechanism needs them
//   encoder.layers.I.self_attention_norm.{weight, bias} [M]
//   encoder.layers.I.feed_forward.in.{weight [F, M], bias [F]}, .out.{weight [M, F], bias [M]}
//   encoder.layers.I.feed_forward_norm.{weight, bias}
//   encoder.norm.{weight, bias}                                                pre-norm only
//   decoder...                                         the same, and in each layer
//   decoder.layers.I.cross_attention.q.{weight [M, M], bias}, .kv.{weight [2 M, M], bias}, .out..., .head_norm...
//   decoder.layers.I.cross_attention_norm.{weight, bias}
//   output.weight [V, M]                                                       unless tied
//   output.bias [V]
namespace fovea::nn {

class EncoderLayer : public torch::nn::Module {
 public:
  EncoderLayer(const ModelConfig& config, int64_t layer, const InitScope& scope);
  std::shared_ptr<Attention> self_attention;
  std::shared_ptr<LayerNorm> self_attention_norm;
  std::shared_ptr<FeedForward> feed_forward;
  std::shared_ptr<LayerNorm> feed_forward_norm;
};

class DecoderLayer : public torch::nn::Module {
 public:
  DecoderLayer(const ModelConfig& config, int64_t layer, const InitScope& scope);
  std::shared_ptr<Attention> self_attention;
  std::shared_ptr<LayerNorm> self_attention_norm;
  std::shared_ptr<Attention> cross_attention;
  std::shared_ptr<LayerNorm> cross_attention_norm;
  std::shared_ptr<FeedForward> feed_forward;
  std::shared_ptr<LayerNorm> feed_forward_norm;
};

// How layer i of the decoder computes its blocks: over whole sentences, or for one more token over caches.
struct DecoderBlocks {
  std::function<at::Tensor(size_t layer, const at::Tensor&x)> self_attention, cross_attention, feed_forward;
};

struct TransformerImpl::Parts {
  Parts(const ModelConfig& model_config, std::optional<int64_t> seed, torch::nn::Module& root);

  struct Embedding {
    const at::Tensor& weight;
    Positions& positions;
  };
  at::Tensor embed(const Embedding& embedding, const at::Tensor& tokens, const PackedPositions& positions,
                   const ops::DropoutOptions& dropout);
  at::Tensor run_decoder(const at::Tensor& embedded, const ops::DropoutOptions& residual, const DecoderBlocks& blocks);

  ModelConfig config;
  at::Tensor source_embedding, target_embedding, output_weight, output_bias;
  std::shared_ptr<Positions> source_positions, target_positions;
  std::vector<std::shared_ptr<EncoderLayer>> encoder_layers;
  std::vector<std::shared_ptr<DecoderLayer>> decoder_layers;
  NormChain encoder_norms, decoder_norms;

 private:
  void add_layers(torch::nn::Module& encoder, torch::nn::Module& decoder, const InitScope& scope);
};

}  // namespace fovea::nn
