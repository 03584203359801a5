#include "fovea/nn/model_sides.h"

#include <memory>

namespace fovea::nn {
namespace {

// Every attention of the model has a number of its own: the encoder's, then self and cross of each decoder layer.
StackPlace encoder_place(const ModelConfig& config) {
  return {.self = Sublayer::kEncoder,
          .cross = false,
          .depth = config.enc_depth,
          .dropout = 0,
          .first_attention = 0,
          .attention_stride = 1,
          .attention_seed = config.attention_seed};
}
StackPlace decoder_place(const ModelConfig& config) {
  return {.self = Sublayer::kDecoder,
          .cross = has_both_sides(config),
          .recurrent = has_recurrent_decoder(config),
          .depth = config.dec_depth,
          .dropout = 1,
          .first_attention = config.enc_depth,
          .attention_stride = has_both_sides(config) ? 2 : 1,
          .attention_seed = config.attention_seed};
}

// The encoder's configuration, whose positions depend on what it reads.
ModelConfig encoder_config(ModelConfig config, const VectorInput& vectors) {
  if (vectors.width == 0) return config;
  config.transformer_positions = vectors.places > 0 ? "learned" : "none";
  config.max_positions = vectors.places;
  return config;
}

}  // namespace

bool has_both_sides(const ModelConfig& config) { return config.enc_depth > 0 && config.dec_depth > 0; }

Mechanisms mechanisms_of(const ModelConfig& config, std::optional<int64_t> reach) {
  return [config, reach](Sublayer sublayer, int64_t layer) -> Mechanism {
    const LayerSpec spec = attention_of(config, sublayer, layer);
    const Mechanism mechanism{spec, config.sparsify == "train" ? without_selection(spec) : spec};
    if (!reach || sublayer != Sublayer::kDecoder) return mechanism;
    return {within_reach(mechanism.training, *reach), within_reach(mechanism.evaluation, *reach)};
  };
}

torch::nn::Module& child_of(torch::nn::Module& root, const std::string& name) {
  const auto children = root.named_children();
  if (const auto* found = children.find(name)) return **found;
  return *root.register_module(name, std::make_shared<torch::nn::Module>());
}

SideOwner::SideOwner(torch::nn::Module& root, const ModelConfig& config, const std::string& name,
                     const InitScope& root_scope)
    : module(has_both_sides(config) ? child_of(root, name) : root),
      scope(has_both_sides(config) ? root_scope / name : root_scope) {}

EncoderSide::EncoderSide(const SideOwner& owner, const ModelConfig& config, const VectorInput& vectors,
                         const at::Tensor& table)
    : embedding(owner.module, encoder_config(config, vectors), {table, vectors.width}, owner.scope),
      stack(owner.module, encoder_config(config, vectors), encoder_place(config), mechanisms_of(config), owner.scope),
      has_clauses(uses_clauses(config)) {}

StackInput EncoderSide::read(const EncoderInput& input, const ForwardContext& context) const {
  const TokenPositions positions = token_positions(input.offsets);
  return {embedding(input, positions, stack.embedding_dropout(context)), input.offsets, positions.position};
}

ForwardContext EncoderSide::with_clauses(const EncoderInput& input, ForwardContext context) const {
  if (has_clauses && !context.clauses && splitter)
    context.clauses = std::make_shared<const Clauses>(splitter(input.tokens.cpu(), input.offsets));
  return context;
}

DecoderSide::DecoderSide(const SideOwner& owner, const ModelConfig& config, const std::vector<int64_t>& image_shape,
                         const at::Tensor& table)
    : embedding(table, make_positions(owner.module, config, image_shape, owner.scope),
                config.embedding_scale == "one" ? EmbeddingScale::kOne : EmbeddingScale::kRootOfWidth,
                config.decoder_start == "zeros" ? FirstToken::kZeros : FirstToken::kOwn),
      stack(owner.module, config, decoder_place(config), mechanisms_of(config), owner.scope) {}

}  // namespace fovea::nn
