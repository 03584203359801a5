#pragma once
#include <memory>
#include <variant>
#include <vector>

#include "fovea/nn/layers.h"
#include "fovea/nn/positions.h"
#include "fovea/nn/vector_input.h"
#include "fovea/ops/step.h"
#include "fovea/spec/model_config.h"

namespace fovea::nn {

// A new module "positions" of `owner`. `image_shape` is that of positions for images, else empty.
std::shared_ptr<Positions> make_positions(torch::nn::Module& owner, const StackConfig& config,
                                          const std::vector<int64_t>& image_shape, const InitScope& scope);

enum class EmbeddingScale : uint8_t { kRootOfWidth, kOne };
// The vector of a sequence's first token: its own, or zeros, as in decoders of Marian.
enum class FirstToken : uint8_t { kOwn, kZeros };

// The first step of a side: scale weight[token] + positions[position], with dropout; the scale is sqrt(M) or 1. Sides
// may share `weight`.
class Embedding {
 public:
  Embedding(const at::Tensor& weight, const std::shared_ptr<Positions>& positions,
            EmbeddingScale scale = EmbeddingScale::kRootOfWidth, FirstToken first = FirstToken::kOwn)
      : weight_(weight), positions_(positions), scale_(scale), first_(first) {}
  // tokens [T] int64 -> [T, M].
  at::Tensor operator()(const at::Tensor& tokens, const TokenPositions& positions,
                        const ops::DropoutOptions& dropout) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;  // [V, M]
  std::shared_ptr<Positions> positions_;
  EmbeddingScale scale_;
  FirstToken first_;
};

// The first step of an encoder that reads vectors: linear(x) + positions[position], with dropout.
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

struct EncoderInput {
  at::Tensor tokens, offsets;  // [T] int64, or vectors [T, F] of the parameters' type; [B + 1] int64 on the CPU
  at::Tensor types = {};       // [T] int64, below token_types; undefined: all 0
};

// The first step of an encoder: tokens with their types, and a norm, if the model has them; or vectors.
class EncoderEmbedding {
 public:
  struct Source {
    at::Tensor table;  // [V, M] of tokens, or undefined
    int64_t width;     // of vectors, or 0
  };
  // Makes parameters of `owner`, except for the table.
  EncoderEmbedding(torch::nn::Module& owner, const ModelConfig& config, const Source& source, const InitScope& scope);
  // -> [T, M].
  at::Tensor operator()(const EncoderInput& input, const TokenPositions& positions,
                        const ops::DropoutOptions& dropout) const;

 private:
  std::variant<Embedding, VectorEmbedding> source_;
  at::Tensor types_;                 // [token_types, M], or undefined
  std::shared_ptr<BlockNorm> norm_;  // null without --embedding-norm
};

// The last step of a decoder: logits = hidden weight^T + bias.
struct Output {
  at::Tensor weight, bias;  // [V, M], [V]; bias undefined if there is none
};

struct TableShape {
  int64_t rows, width;
  bool has_bias = true;  // of an output layer
};
// A new parameter "embeddings.weight" of `owner`, normal with the deviation 1 / sqrt(M).
at::Tensor embedding_weight(torch::nn::Module& owner, const TableShape& shape, const InitScope& scope);
// The parameters of `module`, the model's "output": "weight", unless `tied` stands for it, and "bias".
Output make_output(torch::nn::Module& module, const TableShape& shape, const at::Tensor& tied, const InitScope& scope);

}  // namespace fovea::nn
