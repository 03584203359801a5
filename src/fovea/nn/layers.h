#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/nn/init.h"
#include "fovea/ops/prepacked_layer.h"
#include "fovea/ops/step.h"

// The parts of a Transformer beside attention. T tokens, M width of the model.
namespace fovea::nn {

// Another seed for every use within one pass: (dropout seed of the pass, stack, use).
int64_t derive_seed(int64_t seed, uint64_t first, uint64_t second = 0);

// x weight^T + bias; weight [out, in] uniform in +-limit, bias 0, or without a bias.
class Linear : public torch::nn::Module {
 public:
  struct Shape {
    int64_t in, out;
    double limit;
    bool has_bias = true;
  };
  Linear(const Shape& shape, const InitScope& scope);
  at::Tensor operator()(const at::Tensor& x, ops::Activation activation = ops::Activation::kNone) const {
    return frozen_ ? (*frozen_)(x, activation) : ops::linear(x, weight, bias, activation);
  }
  ops::PrepackedLayer prepacked(ops::PrepackedLayer::Format format) const {  // as it is now
    return frozen_ && frozen_->format() == format ? *frozen_ : ops::PrepackedLayer(weight, bias, format);
  }
  // From now on computes with the weight as it is now, laid out once, without gradients. kExact changes no bit, and
  // nothing of a layer that computes in int8.
  void freeze(ops::PrepackedLayer::Format format) {
    if (!frozen_ || format == ops::PrepackedLayer::Format::kInt8) frozen_.emplace(prepacked(format));
  }
  at::Tensor weight, bias;  // [out, in], [out]; bias undefined if there is none

 private:
  std::optional<ops::PrepackedLayer> frozen_;
};

// The norm of a block: layer norm, with the parameters weight and bias (at first 0), or RMS norm, with weight alone.
// The gain is the weight (at first 1), or 1 + weight (at first 0).
class BlockNorm : public torch::nn::Module {
 public:
  enum class Kind : uint8_t { kLayer, kRms };
  enum class Gain : uint8_t { kWeight, kOnePlusWeight };
  struct Shape {
    int64_t width;
    Kind kind;
    double epsilon;  // added to the variance
    Gain gain = Gain::kWeight;
  };
  BlockNorm(const Shape& shape, const InitScope& scope);
  at::Tensor operator()(const at::Tensor& x) const;
  // sum = residual + dropout(x); returns (sum, norm(sum)).
  std::tuple<at::Tensor, at::Tensor> add(const at::Tensor& x, const at::Tensor& residual,
                                         const ops::DropoutOptions& dropout) const;

 private:
  at::Tensor gain() const;  // [M]

  Shape shape_;
  at::Tensor weight_, bias_;  // [M]; bias undefined in RMS norm
};

// activation(x in^T) out^T with dropout between the two. Gated, `in` has twice the rows, and the activation of its
// first half multiplies the second.
class FeedForward : public torch::nn::Module {
 public:
  struct Shape {
    int64_t width, inner;
    ops::Activation activation;
    bool gated, has_biases = true;
  };
  FeedForward(const Shape& shape, const InitScope& scope);
  at::Tensor operator()(const at::Tensor& x, const ops::DropoutOptions& dropout) const;

  // For many small inputs without dropout.
  struct Prepacked {
    ops::PrepackedLayer in, out;
    ops::Activation activation;
    bool gated;
    at::Tensor operator()(const at::Tensor& x) const {
      return out(gated ? ops::gated(in(x), activation) : in(x, activation));
    }
  };
  Prepacked prepacked(ops::PrepackedLayer::Format format) const {
    return {in_->prepacked(format), out_->prepacked(format), activation_, gated_};
  }

 private:
  ops::Activation activation_;
  bool gated_;
  std::shared_ptr<Linear> in_, out_;
};

// The norms of a stack in the order of its blocks. Post-norm: norm i follows block i and its residual. Pre-norm: norm i
// precedes block i, and one more closes the stack. Sandwich: the same, and outputs[i] is the norm of block i's output,
// before the residual.
struct NormChain {
  bool pre = false;
  std::vector<std::shared_ptr<BlockNorm>> norms, outputs;
};

// The residual stream of one pass through a stack; dropout is on the blocks' outputs.
class ResidualStream {
 public:
  // The state before the block of this number. Post-norm: residual and input are the same.
  struct State {
    at::Tensor residual, input;
    size_t block = 0;
  };
  static State begin(const at::Tensor& embedded, const NormChain& chain);

  ResidualStream(const NormChain& chain, const ops::DropoutOptions& dropout, State state)
      : chain_(chain), dropout_(dropout), state_(std::move(state)) {}
  const State& state() const { return state_; }
  const at::Tensor& input() const { return state_.input; }  // after the last block, the stack's output
  void add(const at::Tensor& block_output);

 private:
  const NormChain& chain_;
  ops::DropoutOptions dropout_;
  State state_;
};

}  // namespace fovea::nn
