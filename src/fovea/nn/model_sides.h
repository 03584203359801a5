#pragma once
#include <optional>
#include <string>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/nn/embedding.h"
#include "fovea/nn/stack.h"
#include "fovea/spec/model_config.h"

// The two sides of a model, each with a stack of layers.
namespace fovea::nn {

bool has_both_sides(const ModelConfig& config);

// The mechanisms of a configuration; a token of the decoder sees `reach` keys at most.
Mechanisms mechanisms_of(const ModelConfig& config, std::optional<int64_t> reach = {});

// The child module of this name, made on the first call.
torch::nn::Module& child_of(torch::nn::Module& root, const std::string& name);

// The owner of the parameters of a side: in a model of both sides under a name of its own.
struct SideOwner {
  // `scope` is the root's, `name` "encoder" or "decoder".
  SideOwner(torch::nn::Module& root, const ModelConfig& config, const std::string& name, const InitScope& scope);
  torch::nn::Module& module;
  InitScope scope;
};

struct EncoderSide {
  // `table` [V, M] of tokens is undefined if the encoder reads vectors.
  EncoderSide(const SideOwner& owner, const ModelConfig& config, const VectorInput& vectors, const at::Tensor& table);

  StackInput read(const EncoderInput& input, const ForwardContext& context) const;
  // A pass with the clauses of the text, where the mechanisms need them and the pass has none.
  ForwardContext with_clauses(const EncoderInput& input, ForwardContext context) const;

  EncoderEmbedding embedding;
  Stack stack;
  ClauseSplitter splitter = {};
  bool has_clauses;
};

struct DecoderSide {
  // `image_shape` is that of positions for images, else empty.
  DecoderSide(const SideOwner& owner, const ModelConfig& config, const std::vector<int64_t>& image_shape,
              const at::Tensor& table);

  Embedding embedding;
  Stack stack;
};

}  // namespace fovea::nn
