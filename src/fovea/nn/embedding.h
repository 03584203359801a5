#pragma once
#include <memory>

#include "fovea/nn/layers.h"
#include "fovea/nn/positions.h"
#include "fovea/ops/step.h"

namespace fovea::nn {

enum class EmbeddingScale : uint8_t { kRootOfWidth, kOne };

// The first step of a family: scale weight[token] + positions[position], with dropout; the scale is sqrt(M) or 1. Sides
// may share `weight`.
class Embedding {
 public:
  Embedding(const at::Tensor& weight, const std::shared_ptr<Positions>& positions,
            EmbeddingScale scale = EmbeddingScale::kRootOfWidth)
      : weight_(weight), positions_(positions), scale_(scale) {}
  // tokens [T] int64 -> [T, M].
  at::Tensor operator()(const at::Tensor& tokens, const TokenPositions& positions,
                        const ops::DropoutOptions& dropout) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;  // [V, M]
  std::shared_ptr<Positions> positions_;
  EmbeddingScale scale_;
};

// The first step of a family that reads vectors: linear(x) + positions[position], with dropout.
class VectorEmbedding {
 public:
  VectorEmbedding(const std::shared_ptr<Linear>& linear, const std::shared_ptr<Positions>& positions)
      : linear_(linear), positions_(positions) {}
  // vectors [T, F] -> [T, M].
  at::Tensor operator()(const at::Tensor& vectors, const TokenPositions& positions,
                        const ops::DropoutOptions& dropout) const;

 private:
  std::shared_ptr<Linear> linear_;
  std::shared_ptr<Positions> positions_;
};

// The last step of a family: logits = hidden weight^T + bias.
struct Output {
  at::Tensor weight, bias;  // [V, M], [V]
};

struct TableShape {
  int64_t rows, width;
};
// A new parameter "embeddings.weight" of `owner`, normal with the deviation 1 / sqrt(M).
at::Tensor embedding_weight(torch::nn::Module& owner, const TableShape& shape, const InitScope& scope);
// The parameters of `module`, the family's "output": "weight", unless `tied` stands for it, and "bias".
Output make_output(torch::nn::Module& module, const TableShape& shape, const at::Tensor& tied, const InitScope& scope);

}  // namespace fovea::nn
