#include "fovea/nn/encoder_only.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>

#include "fovea/nn/embedding.h"
#include "fovea/nn/stack.h"

namespace fovea::nn {
namespace {

StackPlace encoder_only_place(const EncoderConfig& config) {
  return {.self = Sublayer::kEncoder,
          .cross = false,
          .depth = config.enc_depth,
          .dropout = 0,
          .first_attention = 0,
          .attention_stride = 1,
          .attention_seed = config.attention_seed};
}

// A table "weight" of a module `name`, small enough to change little of the embeddings at first (BERT's 0.02).
at::Tensor type_table(torch::nn::Module& root, const EncoderConfig& config, const InitScope& scope) {
  auto module = root.register_module("token_types", std::make_shared<torch::nn::Module>());
  return module->register_parameter("weight",
                                    normal_tensor({config.token_types, config.dim_emb}, 0.02, scope / "token_types"));
}

BlockNorm::Shape embedding_norm_shape(const EncoderConfig& config) {
  BlockNorm::Shape shape = norm_shape(config);
  if (shape.kind == BlockNorm::Kind::kRms && config.norm_epsilon == 0) shape.epsilon = 1e-5;
  shape.kind = BlockNorm::Kind::kLayer;
  return shape;
}

}  // namespace

struct EncoderOnlyImpl::Parts {
  Parts(const EncoderConfig& model_config, torch::nn::Module& root, const InitScope& scope)
      : config(model_config),
        embedding(embedding_weight(root, {config.dim_vocabs[0], config.dim_emb}, scope),
                  root.register_module("positions", std::make_shared<Positions>(config, scope / "positions")),
                  config.embedding_norm ? EmbeddingScale::kOne : EmbeddingScale::kRootOfWidth),
        types(config.token_types > 0 ? type_table(root, config, scope) : at::Tensor()),
        norm(config.embedding_norm ? root.register_module("embedding_norm", std::make_shared<BlockNorm>(
                                                                                embedding_norm_shape(config), scope))
                                   : nullptr),
        stack(root, config, encoder_only_place(config), mechanisms_of(config), scope) {}

  // [T, M], as the stack reads them.
  at::Tensor embedded(const EncoderInput& input, const TokenPositions& positions, const ForwardContext& context) const {
    const ops::DropoutOptions dropout = stack.embedding_dropout(context);
    if (!norm && !types.defined()) return embedding(input.tokens, positions, dropout);
    at::Tensor sum = embedding(input.tokens, positions, {});
    if (types.defined()) sum = sum + (input.types.defined() ? types.index_select(0, input.types) : types[0]);
    if (norm) sum = (*norm)(sum);
    return dropout.rate > 0 ? ops::dropout(sum, dropout) : sum;
  }

  EncoderConfig config;
  Embedding embedding;
  at::Tensor types;                 // [token_types, M], undefined without any
  std::shared_ptr<BlockNorm> norm;  // null without --embedding-norm
  Stack stack;
};

EncoderOnlyImpl::EncoderOnlyImpl(const EncoderConfig& config, std::optional<int64_t> seed) {
  TORCH_INTERNAL_ASSERT(
      config.dim_vocabs.size() == 1 && config.dim_vocabs[0] > 0 && config.dim_emb % config.transformer_heads == 0,
      "a configuration that validate() would refuse, or without the vocabulary's size");
  parts_ = std::make_unique<Parts>(config, *this, InitScope(seed));
}

EncoderOnlyImpl::~EncoderOnlyImpl() = default;

const EncoderConfig& EncoderOnlyImpl::config() const { return parts_->config; }

void EncoderOnlyImpl::override_attention(const AttentionOverride& mechanisms) {
  const EncoderConfig config = with_attention(parts_->config, mechanisms);
  validate(config);
  apply_changes(parts_->stack.changes(mechanisms_of(config)));
  parts_->config = config;
}

at::Tensor EncoderOnlyImpl::forward(const EncoderInput& input, const ForwardContext& context) {
  const TokenPositions positions = token_positions(input.offsets);
  return parts_->stack({parts_->embedded(input, positions, context), input.offsets, positions.position}, nullptr,
                       context);
}

std::vector<at::Tensor> EncoderOnlyImpl::first_layers(const EncoderInput& input, int64_t count) {
  const TokenPositions positions = token_positions(input.offsets);
  return parts_->stack.first_layers({parts_->embedded(input, positions, {}), input.offsets, positions.position}, count,
                                    {});
}

}  // namespace fovea::nn
