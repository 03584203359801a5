#include "fovea/nn/layers.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "fovea/base/rng.h"

namespace fovea::nn {

int64_t derive_seed(int64_t seed, uint64_t first, uint64_t second) {
  return static_cast<int64_t>(hash_combine(hash_combine(static_cast<uint64_t>(seed), first), second) >> 1);
}

Linear::Linear(const Shape& shape, const InitScope& scope)
    : weight(register_parameter("weight", uniform_tensor({shape.out, shape.in}, shape.limit, scope / "weight"))),
      bias(register_parameter("bias", at::zeros({shape.out}))) {}

LayerNorm::LayerNorm(int64_t width)
    : weight(register_parameter("weight", at::ones({width}))), bias(register_parameter("bias", at::zeros({width}))) {}

FeedForward::FeedForward(const Shape& shape, const InitScope& scope)
    : activation_(shape.activation),
      in_(register_module(
          "in", std::make_shared<Linear>(
                    Linear::Shape{shape.width, shape.inner, xavier_limit(shape.width, shape.inner)}, scope / "in"))),
      out_(register_module(
          "out", std::make_shared<Linear>(
                     Linear::Shape{shape.inner, shape.width, xavier_limit(shape.inner, shape.width)}, scope / "out"))) {
}

at::Tensor FeedForward::operator()(const at::Tensor& x, const ops::DropoutOptions& dropout) const {
  at::Tensor inner = (*in_)(x, activation_);
  if (dropout.rate > 0) inner = ops::dropout(inner, dropout);
  return (*out_)(inner);
}

ResidualStream::ResidualStream(const at::Tensor& embedded, const NormChain& chain, const ops::DropoutOptions& dropout)
    : chain_(chain), dropout_(dropout), residual_(embedded) {
  input_ = chain.pre ? ops::layer_norm(embedded, chain.norms[0]->weight, chain.norms[0]->bias) : embedded;
}

void ResidualStream::add(const at::Tensor& block_output) {
  const LayerNorm& norm = *chain_.norms[block_ + (chain_.pre ? 1 : 0)];
  const ops::DropoutOptions dropout = {dropout_.rate, derive_seed(dropout_.seed, block_)};
  auto [sum, normed] = ops::add_norm(block_output, residual_, norm.weight, norm.bias, dropout);
  residual_ = chain_.pre ? sum : normed;
  input_ = normed;
  ++block_;
}

}  // namespace fovea::nn
