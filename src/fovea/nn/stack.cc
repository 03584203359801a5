#include "fovea/nn/stack.h"

#include <c10/core/InferenceMode.h>

namespace fovea::nn {
namespace {

AttentionSetup attention_setup(const StackConfig& config, const StackPlace& place, Sublayer sublayer, int64_t layer) {
  const int64_t number = place.first_attention + place.attention_stride * layer;
  AttentionSetup setup;
  setup.place = {.width = config.dim_emb,
                 .heads = config.transformer_heads,
                 .kind = kind_of(sublayer),
                 .layer = sublayer == Sublayer::kCross ? number + 1 : number,
                 .seed = place.attention_seed};
  return setup;
}

ops::Activation activation_of(const StackConfig& config) {
  return config.transformer_ffn_activation == "gelu" ? ops::Activation::kGelu : ops::Activation::kRelu;
}

// One use of dropout a place: the embedding and the residuals of a stack, and what lies inside its layers.
enum class DropoutPlace : uint64_t { kEmbedding, kResidual, kSelfAttention, kCrossAttention, kFeedForward };

struct StackDropout {
  const StackConfig& config;
  const ForwardContext& context;
  uint64_t stack;

  ops::DropoutOptions at(DropoutPlace place, double rate, uint64_t layer = 0) const {
    if (!context.training) return {};
    const uint64_t use = stack * 8 + static_cast<uint64_t>(place);
    return {rate, derive_seed(context.dropout_seed, use, layer)};
  }
  ops::DropoutOptions residual() const { return at(DropoutPlace::kResidual, config.transformer_dropout); }
  ops::DropoutOptions attention(DropoutPlace place, size_t layer) const {
    return at(place, config.transformer_dropout_attention, layer);
  }
  ops::DropoutOptions feed_forward(size_t layer) const {
    return at(DropoutPlace::kFeedForward, config.transformer_dropout_ffn, layer);
  }
};

}  // namespace

Layer::Layer(const StackConfig& config, const AttentionSetup& self, const AttentionSetup* cross,
             const InitScope& scope) {
  const auto norm = [&](const char* name) {
    return register_module(name, std::make_shared<LayerNorm>(config.dim_emb));
  };
  const auto attention = [&](const char* name, const AttentionSetup& setup) {
    return register_module(name, std::make_shared<Attention>(setup.place, setup.mechanism, scope / name));
  };
  self_attention = attention("self_attention", self);
  self_attention_norm_ = norm("self_attention_norm");
  if (cross != nullptr) {
    cross_attention = attention("cross_attention", *cross);
    cross_attention_norm_ = norm("cross_attention_norm");
  }
  feed_forward = register_module(
      "feed_forward", std::make_shared<FeedForward>(
                          FeedForward::Shape{config.dim_emb, config.transformer_dim_ffn, activation_of(config)},
                          scope / "feed_forward"));
  feed_forward_norm_ = norm("feed_forward_norm");
}

std::vector<std::shared_ptr<LayerNorm>> Layer::norms() const {
  if (!cross_attention) return {self_attention_norm_, feed_forward_norm_};
  return {self_attention_norm_, cross_attention_norm_, feed_forward_norm_};
}

void apply_changes(std::span<const MechanismChange> changes) {
  for (const auto& [attention, mechanism] : changes) attention->require_parameters(mechanism);
  for (const auto& [attention, mechanism] : changes) attention->replace_mechanism(mechanism);
}

Stack::Stack(torch::nn::Module& owner, const StackConfig& config, const StackPlace& place, const Mechanisms& mechanisms,
             const InitScope& scope)
    : config_(config), place_(place) {
  auto list = owner.register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < place.depth; ++i) {
    AttentionSetup self = attention_setup(config, place, place.self, i);
    self.mechanism = mechanisms(place.self, i);
    AttentionSetup cross = attention_setup(config, place, Sublayer::kCross, i);
    if (place.cross) cross.mechanism = mechanisms(Sublayer::kCross, i);
    const std::string name = std::to_string(i);
    layers_.push_back(list->register_module(
        name, std::make_shared<Layer>(config, self, place.cross ? &cross : nullptr, scope / name)));
    for (const auto& norm : layers_.back()->norms()) norms_.norms.push_back(norm);
  }
  if (config.transformer_norm != "pre") return;
  norms_.pre = true;
  norms_.norms.push_back(owner.register_module("norm", std::make_shared<LayerNorm>(config.dim_emb)));
}

ops::DropoutOptions Stack::embedding_dropout(const ForwardContext& context) const {
  return StackDropout{config_, context, place_.dropout}.at(DropoutPlace::kEmbedding, fovea::embedding_dropout(config_));
}

at::Tensor Stack::run(const at::Tensor& embedded, const ops::DropoutOptions& residual,
                      const StackBlocks& blocks) const {
  ResidualStream stream(embedded, norms_, residual);
  for (size_t i = 0; i < layers_.size(); ++i) {
    stream.add(blocks.self_attention(i, stream.input()));
    if (place_.cross) stream.add(blocks.cross_attention(i, stream.input()));
    stream.add(blocks.feed_forward(i, stream.input()));
  }
  return stream.input();
}

at::Tensor Stack::operator()(const StackInput& input, const OtherSide* other, const ForwardContext& context) const {
  const StackDropout dropout{config_, context, place_.dropout};
  return run(
      input.embedded, dropout.residual(),
      {.self_attention =
           [&](size_t i, const at::Tensor& x) {
             const Attention& attention = *layers_[i]->self_attention;
             return attention.attend(attention.project(x), {input.offsets, input.offsets},
                                     dropout.attention(DropoutPlace::kSelfAttention, i), context.training);
           },
       .cross_attention =
           [&](size_t i, const at::Tensor& x) {
             const Attention& attention = *layers_[i]->cross_attention;
             Projected projected = attention.project_memory(other->encoded);
             projected.q = attention.project_query(x);
             return attention.attend(projected, {input.offsets, other->offsets},
                                     dropout.attention(DropoutPlace::kCrossAttention, i), context.training);
           },
       .feed_forward = [&](size_t i,
                           const at::Tensor& x) { return (*layers_[i]->feed_forward)(x, dropout.feed_forward(i)); }});
}

std::shared_ptr<const PackedStack> Stack::packed(ops::PackedLayer::Format format) const {
  const c10::InferenceMode guard;
  auto packed = std::make_shared<PackedStack>();
  for (const auto& layer : layers_) {
    packed->layers.push_back({.self_attention = layer->self_attention->packed(format),
                              .cross_attention = {},
                              .feed_forward = layer->feed_forward->packed(format)});
    if (place_.cross) packed->layers.back().cross_attention = layer->cross_attention->packed(format);
  }
  return packed;
}

std::vector<MechanismChange> Stack::changes(const Mechanisms& mechanisms) const {
  std::vector<MechanismChange> all;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    all.push_back({layers_[i]->self_attention.get(), mechanisms(place_.self, number)});
    if (place_.cross) all.push_back({layers_[i]->cross_attention.get(), mechanisms(Sublayer::kCross, number)});
  }
  return all;
}

}  // namespace fovea::nn
