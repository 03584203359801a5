#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/nn/init.h"
#include "fovea/ops/packed_layer.h"
#include "fovea/ops/step.h"

// What a Transformer is made of beside attention. T tokens, M width of the model.
namespace fovea::nn {

// Another seed for every use within one pass: (dropout seed of the pass, stack, use).
int64_t derive_seed(int64_t seed, uint64_t first, uint64_t second = 0);

// x weight^T + bias; weight [out, in] uniform in +-limit, bias 0.
class Linear : public torch::nn::Module {
 public:
  struct Shape {
    int64_t in, out;
    double limit;
  };
  Linear(const Shape& shape, const InitScope& scope);
  at::Tensor operator()(const at::Tensor& x, ops::Activation activation = ops::Activation::kNone) const {
    return ops::linear(x, weight, bias, activation);
  }
  ops::PackedLayer packed(ops::PackedLayer::Format format) const { return {weight, bias, format}; }  // as it is now
  at::Tensor weight, bias;
};

// Parameters of a layer norm, at first weight 1 and bias 0.
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(int64_t width);
  at::Tensor weight, bias;
};

// activation(x in^T) out^T with dropout between the two.
class FeedForward : public torch::nn::Module {
 public:
  struct Shape {
    int64_t width, inner;
    ops::Activation activation;
  };
  FeedForward(const Shape& shape, const InitScope& scope);
  at::Tensor operator()(const at::Tensor& x, const ops::DropoutOptions& dropout) const;

  // For many small inputs without dropout.
  struct Packed {
    ops::PackedLayer in, out;
    ops::Activation activation;
    at::Tensor operator()(const at::Tensor& x) const { return out(in(x, activation)); }
  };
  Packed packed(ops::PackedLayer::Format format) const {
    return {in_->packed(format), out_->packed(format), activation_};
  }

 private:
  ops::Activation activation_;
  std::shared_ptr<Linear> in_, out_;
};

// The norms of a stack in the order of its blocks. Post-norm: norm i follows block i. Pre-norm: norm i precedes block
// i, and one more closes the stack.
struct NormChain {
  bool pre = false;
  std::vector<std::shared_ptr<LayerNorm>> norms;
};

// The residual stream of one pass through a stack; dropout is on the blocks' outputs.
class ResidualStream {
 public:
  ResidualStream(const at::Tensor& embedded, const NormChain& chain, const ops::DropoutOptions& dropout);
  const at::Tensor& input() const { return input_; }  // of the next block; after the last one, the stack's output
  void add(const at::Tensor& block_output);

 private:
  const NormChain& chain_;
  ops::DropoutOptions dropout_;
  size_t block_ = 0;
  at::Tensor residual_, input_;
};

}  // namespace fovea::nn
