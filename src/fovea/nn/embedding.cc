#include "fovea/nn/embedding.h"

#include <cmath>

namespace fovea::nn {

at::Tensor Embedding::operator()(const at::Tensor& tokens, const TokenPositions& positions,
                                 const ops::DropoutOptions& dropout) const {
  const PositionVectors added = positions_->vectors(positions, weight_);
  const double scale = scale_ == EmbeddingScale::kOne ? 1 : std::sqrt(static_cast<double>(weight_.size(1)));
  return ops::embed(tokens, added.index, weight_, added.table, scale, dropout);
}

at::Tensor VectorEmbedding::operator()(const at::Tensor& vectors, const TokenPositions& positions,
                                       const ops::DropoutOptions& dropout) const {
  const at::Tensor embedded = (*linear_)(vectors);
  const PositionVectors added = positions_->vectors(positions, embedded);
  if (!added.table.defined()) return ops::dropout(embedded, dropout);
  return ops::dropout(embedded + added.table.index_select(0, added.index), dropout);
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
  return {weight, module.register_parameter("bias", constant_tensor({shape.rows}, 0, scope))};
}

}  // namespace fovea::nn
