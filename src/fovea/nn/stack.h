#pragma once
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/layers.h"
#include "fovea/nn/memory.h"
#include "fovea/nn/ssru.h"
#include "fovea/nn/stepper.h"
#include "fovea/spec/attention_config.h"
#include "fovea/spec/model_config.h"

// Layers of self-attention, optional cross-attention and feed-forward: each side of a model has one stack.
//
// Names of parameters, all stable (they are the keys of model.safetensors), under the module that owns the stack.
// M = dim_emb, F = dim_ffn, H heads:
//   layers.I.self_attention.qkv.{weight [3 M, M], bias [3 M]}                q, k, v stacked in this order; with K
//   heads
//                                                             of k and v of D each M + 2 K D in place of 3 M
//                          .out.{weight [M, M], bias [M]}
//                          .gate.weight [M, M] or [H, M]                    gate, gate(head)
//                          .scale.{weight [H], base.weight, power.weight [H, M]}    scaled
//                          .head_norm.{gain, gate, bias} [M], .alpha, sinks [H] as the mechanism needs them
//                          .routing.{centroids, counts, means}               buffers of routed heads, see routing.h
//                          .relative.{keys, values} [2 R + 1, D], .weight [M, M]    positions shaw, transformer-xl
//                          .span.share [S]                                  of the S heads with an adaptive span
//   layers.I.self_attention_norm.{weight, bias} [M]                          RMS norms have no bias
//   layers.I.{self_attention, ssru, cross_attention, feed_forward}_output_norm.{weight, bias} [M]    sandwich only
//   layers.I.ssru.{weight [2 M, M], gate_bias [M]}                           in a recurrent decoder in place of
//   layers.I.ssru_norm.{weight, bias} [M]                                    self_attention and its norm, see ssru.h
//   layers.I.cross_attention.q.{weight [M, M], bias}, .kv.{weight [2 M, M], bias}, .out..., .head_norm...
//   layers.I.cross_attention_norm.{weight, bias}
//   layers.I.feed_forward.in.{weight [F, M], bias [F]}, .out.{weight [M, F], bias [M]}    in: 2 F rows if gated
//   layers.I.feed_forward_norm.{weight, bias}
//   relative.{content_bias, position_bias} [H, D]                            positions transformer-xl
//   distances.weight [L, D]                                                  adaptive spans, L their greatest limit
//   norm.{weight, bias}                                                      pre-norm and sandwich
// With --transformer-biases qkv only q, k and v have a bias; with none, matrices have no biases.
namespace fovea::nn {

// The numbers of a stack that initial weights, dropout and random(k) depend on, so they never change.
struct StackPlace {
  Sublayer self = Sublayer::kDecoder;
  bool cross = false;      // each layer has cross-attention, too
  bool recurrent = false;  // each layer has an SSRU in place of self-attention
  int64_t depth = 1;
  uint64_t dropout = 1;                               // the stack's number: 0 encoder, 1 decoder
  int64_t first_attention = 0, attention_stride = 1;  // layer i: first + stride i, and one more for cross-attention
  int64_t attention_seed = 0;
};

// The mechanism of each attention.
using Mechanisms = std::function<Mechanism(Sublayer sublayer, int64_t layer)>;

// The norm of each block of a stack.
BlockNorm::Shape norm_shape(const StackConfig& config);

struct AttentionSetup {
  AttentionPlace place;
  Mechanism mechanism;
};

class Layer : public torch::nn::Module {
 public:
  // Without `self` the layer has an SSRU; `cross` may be null, too.
  Layer(const StackConfig& config, const AttentionSetup* self, const AttentionSetup* cross, const InitScope& scope);
  // In the order of their blocks: the norms before or behind these, and in a sandwich those of their outputs.
  std::vector<std::shared_ptr<BlockNorm>> norms() const;
  const std::vector<std::shared_ptr<BlockNorm>>& output_norms() const { return output_norms_; }
  std::shared_ptr<Attention> self_attention, cross_attention;  // or null
  std::shared_ptr<Ssru> ssru;                                  // or null: one of this and self_attention is there
  std::shared_ptr<FeedForward> feed_forward;

 private:
  std::shared_ptr<BlockNorm> first_norm_, cross_attention_norm_, feed_forward_norm_;
  std::vector<std::shared_ptr<BlockNorm>> output_norms_;
};

// Another mechanism for one attention of a model.
struct MechanismChange {
  Attention* attention;
  Mechanism mechanism;
};
// All or none: throws an Error if one needs parameters that the model lacks.
void apply_changes(std::span<const MechanismChange> changes);

// The tokens that a stack reads: embedded [T, M], offsets [B + 1] and positions [T] on the CPU.
struct StackInput {
  at::Tensor embedded, offsets, positions;
  std::shared_ptr<MemoryPass> memory = nullptr;  // of earlier segments, which self-attention sees too, if any
};

// The blocks of layer i: over whole sequences, or for some more tokens over caches. The first is self-attention or the
// SSRU in its place.
struct StackBlocks {
  std::function<at::Tensor(size_t layer, const at::Tensor&x)> first, cross_attention, feed_forward;
};

// The layers' products laid out for many small inputs; later changes of the weights are not seen.
struct PrepackedStack {
  struct Layer {
    std::optional<Attention::Prepacked> self_attention, cross_attention;
    std::optional<ops::PrepackedLayer> ssru;
    FeedForward::Prepacked feed_forward;
  };
  std::vector<Layer> layers;
};

class Stack {
 public:
  // Registers "layers" and, with pre-norm or a sandwich, "norm" in `owner`.
  Stack(torch::nn::Module& owner, const ModelConfig& config, const StackPlace& place, const Mechanisms& mechanisms,
        const InitScope& scope);

  // A full pass over a packed batch -> [T, M]. `other` is for cross-attention, else null.
  at::Tensor operator()(const StackInput& input, const OtherSide* other, const ForwardContext& context) const;
  // Returns the outputs of the first `count` layers, for a stack without cross-attention: count + 1 tensors [T, M], the
  // first the embeddings. With pre-norm, a layer's output is as the next block reads it, normalised.
  std::vector<at::Tensor> first_layers(const StackInput& input, int64_t count, const ForwardContext& context) const;
  // Dropout of the embeddings that the stack reads.
  ops::DropoutOptions embedding_dropout(const ForwardContext& context) const;

  // The order of norms, residuals and blocks, which every kind of pass shares -> [T, M].
  at::Tensor run(const at::Tensor& embedded, const ops::DropoutOptions& residual, const StackBlocks& blocks) const;

  const std::vector<std::shared_ptr<Layer>>& layers() const { return layers_; }
  const StackPlace& place() const { return place_; }
  std::shared_ptr<const PrepackedStack> prepacked(ops::PrepackedLayer::Format format) const;
  std::vector<MechanismChange> changes(const Mechanisms& mechanisms) const;

 private:
  // The blocks of a full pass; they refer to the arguments.
  StackBlocks full_blocks(const StackInput& input, const OtherSide* other, const ForwardContext& context) const;
  void run_layer(size_t layer, const StackBlocks& blocks, ResidualStream& stream) const;
  // A full pass whose layers backward computes again.
  at::Tensor run_recomputed(const StackInput& input, const OtherSide* other, const ForwardContext& context) const;
  std::vector<at::Tensor> parameters_of_layer(size_t layer) const;

  StackConfig config_;
  StackPlace place_;
  RelativeSchemes relative_;
  SpanScheme spans_;
  std::vector<std::shared_ptr<Layer>> layers_;
  NormChain norms_;
};

}  // namespace fovea::nn
