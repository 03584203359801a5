#include "fovea/nn/transformer.h"

#include <cmath>

#include "fovea/nn/transformer_parts.h"

namespace fovea::nn {
namespace {

Mechanism mechanism_of(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  const LayerSpec spec = attention_of(config, sublayer, layer);
  return {spec, config.sparsify == "train" ? without_selection(spec) : spec};
}

// Every attention of the model has a number of its own: the encoder's, then self and cross of each decoder layer.
AttentionPlace place_of(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  AttentionPlace place{.width = config.dim_emb, .heads = config.transformer_heads, .seed = config.attention_seed};
  switch (sublayer) {
    case Sublayer::kEncoder:
      place.kind = AttentionKind::kSelf;
      place.layer = layer;
      break;
    case Sublayer::kDecoder:
      place.kind = AttentionKind::kCausal;
      place.layer = config.enc_depth + 2 * layer;
      break;
    case Sublayer::kCross:
      place.kind = AttentionKind::kCross;
      place.layer = config.enc_depth + 2 * layer + 1;
      break;
  }
  return place;
}

std::shared_ptr<Attention> make_attention(const ModelConfig& config, Sublayer sublayer, int64_t layer,
                                          const InitScope& scope) {
  return std::make_shared<Attention>(place_of(config, sublayer, layer), mechanism_of(config, sublayer, layer), scope);
}

ops::Activation activation_of(const ModelConfig& config) {
  return config.transformer_ffn_activation == "gelu" ? ops::Activation::kGelu : ops::Activation::kRelu;
}

// One use of dropout a place: the embedding and the residuals of a stack, and what lies inside its layers.
enum class DropoutPlace : uint64_t { kEmbedding, kResidual, kSelfAttention, kCrossAttention, kFeedForward };

struct StackDropout {
  const ModelConfig& config;
  const ForwardContext& context;
  uint64_t stack;  // 0 encoder, 1 decoder

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

EncoderLayer::EncoderLayer(const ModelConfig& config, int64_t layer, const InitScope& scope)
    : self_attention(register_module("self_attention",
                                     make_attention(config, Sublayer::kEncoder, layer, scope / "self_attention"))),
      self_attention_norm(register_module("self_attention_norm", std::make_shared<LayerNorm>(config.dim_emb))),
      feed_forward(register_module(
          "feed_forward", std::make_shared<FeedForward>(
                              FeedForward::Shape{config.dim_emb, config.transformer_dim_ffn, activation_of(config)},
                              scope / "feed_forward"))),
      feed_forward_norm(register_module("feed_forward_norm", std::make_shared<LayerNorm>(config.dim_emb))) {}

DecoderLayer::DecoderLayer(const ModelConfig& config, int64_t layer, const InitScope& scope)
    : self_attention(register_module("self_attention",
                                     make_attention(config, Sublayer::kDecoder, layer, scope / "self_attention"))),
      self_attention_norm(register_module("self_attention_norm", std::make_shared<LayerNorm>(config.dim_emb))),
      cross_attention(register_module("cross_attention",
                                      make_attention(config, Sublayer::kCross, layer, scope / "cross_attention"))),
      cross_attention_norm(register_module("cross_attention_norm", std::make_shared<LayerNorm>(config.dim_emb))),
      feed_forward(register_module(
          "feed_forward", std::make_shared<FeedForward>(
                              FeedForward::Shape{config.dim_emb, config.transformer_dim_ffn, activation_of(config)},
                              scope / "feed_forward"))),
      feed_forward_norm(register_module("feed_forward_norm", std::make_shared<LayerNorm>(config.dim_emb))) {}

TransformerImpl::Parts::Parts(const ModelConfig& model_config, std::optional<int64_t> seed, torch::nn::Module& root)
    : config(model_config) {
  const InitScope scope(seed);
  const int64_t width = config.dim_emb;
  const double stddev = 1 / std::sqrt(static_cast<double>(width));
  const auto embedding = [&](torch::nn::Module& owner, int64_t rows, const InitScope& place) {
    auto module = owner.register_module("embeddings", std::make_shared<torch::nn::Module>());
    return module->register_parameter("weight", normal_tensor({rows, width}, stddev, place / "embeddings"));
  };
  const int64_t learned = config.transformer_positions == "learned" ? config.max_positions : 0;

  auto encoder = root.register_module("encoder", std::make_shared<torch::nn::Module>());
  auto decoder = root.register_module("decoder", std::make_shared<torch::nn::Module>());
  auto output = root.register_module("output", std::make_shared<torch::nn::Module>());
  const bool shared = config.tied_embeddings_src || config.tied_embeddings_all;
  if (shared) {
    source_embedding = target_embedding = embedding(root, config.dim_vocabs[0], scope);
  } else {
    source_embedding = embedding(*encoder, config.dim_vocabs[0], scope / "encoder");
    target_embedding = embedding(*decoder, config.dim_vocabs[1], scope / "decoder");
  }
  const bool tied = config.tied_embeddings || config.tied_embeddings_all;
  output_weight = tied ? target_embedding
                       : output->register_parameter(
                             "weight", normal_tensor({config.dim_vocabs[1], width}, stddev, scope / "output"));
  output_bias = output->register_parameter("bias", at::zeros({config.dim_vocabs[1]}));
  source_positions = encoder->register_module(
      "positions", std::make_shared<Positions>(width, learned, scope / "encoder" / "positions"));
  target_positions = decoder->register_module(
      "positions", std::make_shared<Positions>(width, learned, scope / "decoder" / "positions"));
  add_layers(*encoder, *decoder, scope);
}

void TransformerImpl::Parts::add_layers(torch::nn::Module& encoder, torch::nn::Module& decoder,
                                        const InitScope& scope) {
  auto encoder_list = encoder.register_module("layers", std::make_shared<torch::nn::Module>());
  auto decoder_list = decoder.register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config.enc_depth; ++i) {
    auto layer = std::make_shared<EncoderLayer>(config, i, scope / "encoder" / std::to_string(i));
    encoder_layers.push_back(encoder_list->register_module(std::to_string(i), layer));
    encoder_norms.norms.insert(encoder_norms.norms.end(), {layer->self_attention_norm, layer->feed_forward_norm});
  }
  for (int64_t i = 0; i < config.dec_depth; ++i) {
    auto layer = std::make_shared<DecoderLayer>(config, i, scope / "decoder" / std::to_string(i));
    decoder_layers.push_back(decoder_list->register_module(std::to_string(i), layer));
    decoder_norms.norms.insert(decoder_norms.norms.end(),
                               {layer->self_attention_norm, layer->cross_attention_norm, layer->feed_forward_norm});
  }
  if (config.transformer_norm != "pre") return;
  encoder_norms.pre = decoder_norms.pre = true;
  encoder_norms.norms.push_back(encoder.register_module("norm", std::make_shared<LayerNorm>(config.dim_emb)));
  decoder_norms.norms.push_back(decoder.register_module("norm", std::make_shared<LayerNorm>(config.dim_emb)));
}

at::Tensor TransformerImpl::Parts::embed(const Embedding& embedding, const at::Tensor& tokens,
                                         const PackedPositions& positions, const ops::DropoutOptions& dropout) {
  const at::Tensor table = embedding.positions.table(positions.longest, embedding.weight);
  const double scale = std::sqrt(static_cast<double>(config.dim_emb));
  return ops::embed(tokens, positions.position.to(tokens.device()), embedding.weight, table, scale, dropout);
}

at::Tensor TransformerImpl::Parts::run_decoder(const at::Tensor& embedded, const ops::DropoutOptions& residual,
                                               const DecoderBlocks& blocks) {
  ResidualStream stream(embedded, decoder_norms, residual);
  for (size_t i = 0; i < decoder_layers.size(); ++i) {
    stream.add(blocks.self_attention(i, stream.input()));
    stream.add(blocks.cross_attention(i, stream.input()));
    stream.add(blocks.feed_forward(i, stream.input()));
  }
  return stream.input();
}

TransformerImpl::TransformerImpl(const ModelConfig& config, std::optional<int64_t> seed) {
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  const bool shared = config.tied_embeddings_src || config.tied_embeddings_all;
  TORCH_INTERNAL_ASSERT(sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0 && (!shared || sizes[0] == sizes[1]) &&
                            config.dim_emb % config.transformer_heads == 0,
                        "a configuration that validate() would refuse, or without the vocabularies' sizes");
  parts_ = std::make_unique<Parts>(config, seed, *this);
}

TransformerImpl::~TransformerImpl() = default;

const ModelConfig& TransformerImpl::config() const { return parts_->config; }

at::Tensor TransformerImpl::output_weight() const { return parts_->output_weight; }

at::Tensor TransformerImpl::output_bias() const { return parts_->output_bias; }

at::Tensor TransformerImpl::encode(const at::Tensor& tokens, const at::Tensor& offsets, const ForwardContext& context) {
  Parts& parts = *parts_;
  const StackDropout dropout{parts.config, context, 0};
  const at::Tensor embedded =
      parts.embed({parts.source_embedding, *parts.source_positions}, tokens, packed_positions(offsets),
                  dropout.at(DropoutPlace::kEmbedding, parts.config.transformer_dropout));
  ResidualStream stream(embedded, parts.encoder_norms, dropout.residual());
  for (size_t i = 0; i < parts.encoder_layers.size(); ++i) {
    const EncoderLayer& layer = *parts.encoder_layers[i];
    stream.add(layer.self_attention->attend(layer.self_attention->project(stream.input()), {offsets, offsets},
                                            dropout.attention(DropoutPlace::kSelfAttention, i), context.training));
    stream.add((*layer.feed_forward)(stream.input(), dropout.feed_forward(i)));
  }
  return stream.input();
}

at::Tensor TransformerImpl::decode(const at::Tensor& inputs, const at::Tensor& offsets, const at::Tensor& memory,
                                   const at::Tensor& memory_offsets, const ForwardContext& context) {
  Parts& parts = *parts_;
  const StackDropout dropout{parts.config, context, 1};
  const at::Tensor embedded =
      parts.embed({parts.target_embedding, *parts.target_positions}, inputs, packed_positions(offsets),
                  dropout.at(DropoutPlace::kEmbedding, parts.config.transformer_dropout));
  return parts.run_decoder(
      embedded, dropout.residual(),
      {.self_attention =
           [&](size_t i, const at::Tensor& x) {
             const Attention& attention = *parts.decoder_layers[i]->self_attention;
             return attention.attend(attention.project(x), {offsets, offsets},
                                     dropout.attention(DropoutPlace::kSelfAttention, i), context.training);
           },
       .cross_attention =
           [&](size_t i, const at::Tensor& x) {
             const Attention& attention = *parts.decoder_layers[i]->cross_attention;
             Projected projected = attention.project_memory(memory);
             projected.q = attention.project_query(x);
             return attention.attend(projected, {offsets, memory_offsets},
                                     dropout.attention(DropoutPlace::kCrossAttention, i), context.training);
           },
       .feed_forward =
           [&](size_t i, const at::Tensor& x) {
             return (*parts.decoder_layers[i]->feed_forward)(x, dropout.feed_forward(i));
           }});
}

void TransformerImpl::override_attention(const AttentionOverride& mechanisms) {
  Parts& parts = *parts_;
  const ModelConfig config = with_attention(parts.config, mechanisms);
  validate(config);
  std::vector<std::pair<Attention*, Mechanism>> changes;
  for (size_t i = 0; i < parts.encoder_layers.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    changes.emplace_back(parts.encoder_layers[i]->self_attention.get(),
                         mechanism_of(config, Sublayer::kEncoder, layer));
  }
  for (size_t i = 0; i < parts.decoder_layers.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    const DecoderLayer& decoder = *parts.decoder_layers[i];
    changes.emplace_back(decoder.self_attention.get(), mechanism_of(config, Sublayer::kDecoder, layer));
    changes.emplace_back(decoder.cross_attention.get(), mechanism_of(config, Sublayer::kCross, layer));
  }
  for (const auto& [attention, mechanism] : changes) attention->require_parameters(mechanism);
  for (const auto& [attention, mechanism] : changes) attention->replace_mechanism(mechanism);
  parts.config = config;
}

}  // namespace fovea::nn
