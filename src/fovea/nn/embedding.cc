#include "fovea/nn/embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>

#include <cmath>

#include "fovea/nn/stack.h"

namespace fovea::nn {
namespace {

// A table "weight" of a module "token_types", small enough to change little of the embeddings at first (BERT's 0.02).
at::Tensor type_table(torch::nn::Module& owner, const ModelConfig& config, const InitScope& scope) {
  if (config.token_types == 0) return {};
  auto module = owner.register_module("token_types", std::make_shared<torch::nn::Module>());
  return module->register_parameter("weight",
                                    normal_tensor({config.token_types, config.dim_emb}, 0.02, scope / "token_types"));
}

std::shared_ptr<BlockNorm> embedding_norm(torch::nn::Module& owner, const ModelConfig& config, const InitScope& scope) {
  if (!config.embedding_norm) return nullptr;
  BlockNorm::Shape shape = norm_shape(config);
  if (shape.kind == BlockNorm::Kind::kRms && config.norm_epsilon == 0) shape.epsilon = 1e-5;
  shape.kind = BlockNorm::Kind::kLayer;
  return owner.register_module("embedding_norm", std::make_shared<BlockNorm>(shape, scope));
}

std::variant<Embedding, VectorEmbedding> make_source(torch::nn::Module& owner, const ModelConfig& config,
                                                     const EncoderEmbedding::Source& source, const InitScope& scope) {
  const auto positions = make_positions(owner, config, {}, scope);
  if (source.width == 0)
    return Embedding(source.table, positions,
                     config.embedding_norm ? EmbeddingScale::kOne : EmbeddingScale::kRootOfWidth);
  const Linear::Shape shape{source.width, config.dim_emb, xavier_limit(source.width, config.dim_emb)};
  return VectorEmbedding(owner.register_module("features", std::make_shared<Linear>(shape, scope / "features")),
                         positions);
}

}  // namespace

std::shared_ptr<Positions> make_positions(torch::nn::Module& owner, const StackConfig& config,
                                          const std::vector<int64_t>& image_shape, const InitScope& scope) {
  return owner.register_module("positions", std::make_shared<Positions>(config, image_shape, scope / "positions"));
}

at::Tensor Embedding::operator()(const at::Tensor& tokens, const TokenPositions& positions,
                                 const ops::DropoutOptions& dropout) const {
  const PositionVectors added = positions_->vectors(positions, weight_);
  const double scale = scale_ == EmbeddingScale::kOne ? 1 : std::sqrt(static_cast<double>(weight_.size(1)));
  if (first_ == FirstToken::kOwn) return ops::embed(tokens, added.index, weight_, added.table, scale, dropout);
  const at::Tensor known = tokens.masked_fill(positions.position.to(tokens.device()).eq(0), -1);
  return ops::embed(known, added.index, weight_, added.table, scale, dropout);
}

at::Tensor VectorEmbedding::operator()(const at::Tensor& vectors, const TokenPositions& positions,
                                       const ops::DropoutOptions& dropout) const {
  const at::Tensor embedded = (*linear_)(vectors);
  const PositionVectors added = positions_->vectors(positions, embedded);
  if (!added.table.defined()) return ops::dropout(embedded, dropout);
  return ops::dropout(embedded + added.table.index_select(0, added.index), dropout);
}

EncoderEmbedding::EncoderEmbedding(torch::nn::Module& owner, const ModelConfig& config, const Source& source,
                                   const InitScope& scope)
    : source_(make_source(owner, config, source, scope)),
      types_(type_table(owner, config, scope)),
      norm_(embedding_norm(owner, config, scope)) {}

at::Tensor EncoderEmbedding::operator()(const EncoderInput& input, const TokenPositions& positions,
                                        const ops::DropoutOptions& dropout) const {
  const auto embedded = [&](const ops::DropoutOptions& own) {
    return std::visit([&](const auto& source) { return source(input.tokens, positions, own); }, source_);
  };
  if (!norm_ && !types_.defined()) return embedded(dropout);
  at::Tensor sum = embedded({});
  if (types_.defined()) sum = sum + (input.types.defined() ? types_.index_select(0, input.types) : types_[0]);
  if (norm_) sum = (*norm_)(sum);
  return dropout.rate > 0 ? ops::dropout(sum, dropout) : sum;
}

at::Tensor embedding_weight(torch::nn::Module& owner, const TableShape& shape, const InitScope& scope) {
  auto module = owner.register_module("embeddings", std::make_shared<torch::nn::Module>());
  const double stddev = 1 / std::sqrt(static_cast<double>(shape.width));
  return module->register_parameter("weight", normal_tensor({shape.rows, shape.width}, stddev, scope / "embeddings"));
}

Output make_output(torch::nn::Module& module, const TableShape& shape, const at::Tensor& tied, const InitScope& scope) {
  const double stddev = 1 / std::sqrt(static_cast<double>(shape.width));
  const at::Tensor weight =
      tied.defined()
          ? tied
          : module.register_parameter("weight", normal_tensor({shape.rows, shape.width}, stddev, scope / "output"));
  if (!shape.has_bias) return {weight, {}};
  return {weight, module.register_parameter("bias", constant_tensor({shape.rows}, 0, scope))};
}

}  // namespace fovea::nn
