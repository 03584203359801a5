#include "fovea/nn/layers.h"

#include <ATen/TensorOperators.h>

#include "fovea/base/rng.h"

namespace fovea::nn {

int64_t derive_seed(int64_t seed, uint64_t first, uint64_t second) {
  return static_cast<int64_t>(hash_combine(hash_combine(static_cast<uint64_t>(seed), first), second) >> 1);
}

Linear::Linear(const Shape& shape, const InitScope& scope)
    : weight(register_parameter("weight", uniform_tensor({shape.out, shape.in}, shape.limit, scope / "weight"))) {
  if (shape.has_bias) bias = register_parameter("bias", constant_tensor({shape.out}, 0, scope));
}

BlockNorm::BlockNorm(const Shape& shape, const InitScope& scope)
    : shape_(shape),
      weight_(
          register_parameter("weight", constant_tensor({shape.width}, shape.gain == Gain::kWeight ? 1 : 0, scope))) {
  if (shape.kind == Kind::kLayer) bias_ = register_parameter("bias", constant_tensor({shape.width}, 0, scope));
}

at::Tensor BlockNorm::gain() const { return shape_.gain == Gain::kWeight ? weight_ : weight_ + 1; }

at::Tensor BlockNorm::operator()(const at::Tensor& x) const {
  return shape_.kind == Kind::kRms ? ops::rms_norm(x, gain(), shape_.epsilon)
                                   : ops::layer_norm(x, gain(), bias_, shape_.epsilon);
}

std::tuple<at::Tensor, at::Tensor> BlockNorm::add(const at::Tensor& x, const at::Tensor& residual,
                                                  const ops::DropoutOptions& dropout) const {
  return shape_.kind == Kind::kRms ? ops::add_rms_norm(x, residual, gain(), dropout, shape_.epsilon)
                                   : ops::add_norm(x, residual, gain(), bias_, dropout, shape_.epsilon);
}

FeedForward::FeedForward(const Shape& shape, const InitScope& scope)
    : activation_(shape.activation),
      gated_(shape.gated),
      in_(register_module(
          "in", std::make_shared<Linear>(Linear::Shape{shape.width, shape.gated ? 2 * shape.inner : shape.inner,
                                                       xavier_limit(shape.width, shape.inner), shape.has_biases},
                                         scope / "in"))),
      out_(register_module(
          "out", std::make_shared<Linear>(
                     Linear::Shape{shape.inner, shape.width, xavier_limit(shape.inner, shape.width), shape.has_biases},
                     scope / "out"))) {}

at::Tensor FeedForward::operator()(const at::Tensor& x, const ops::DropoutOptions& dropout) const {
  if (gated_) return (*out_)(ops::gated((*in_)(x), activation_, dropout));
  // The product itself applies ReLU.
  if (activation_ == ops::Activation::kRelu) return (*out_)(ops::dropout((*in_)(x, activation_), dropout));
  return (*out_)(ops::activated((*in_)(x), activation_, dropout));
}

ResidualStream::State ResidualStream::begin(const at::Tensor& embedded, const NormChain& chain) {
  return {embedded, chain.pre ? (*chain.norms[0])(embedded) : embedded, 0};
}

void ResidualStream::add(const at::Tensor& block_output) {
  const BlockNorm& norm = *chain_.norms[state_.block + (chain_.pre ? 1 : 0)];
  const ops::DropoutOptions dropout = {dropout_.rate, derive_seed(dropout_.seed, state_.block)};
  const at::Tensor added = chain_.outputs.empty() ? block_output : (*chain_.outputs[state_.block])(block_output);
  auto [sum, normed] = norm.add(added, state_.residual, dropout);
  state_.residual = chain_.pre ? sum : normed;
  state_.input = normed;
  ++state_.block;
}

}  // namespace fovea::nn
