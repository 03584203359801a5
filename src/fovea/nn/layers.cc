#include "fovea/nn/layers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"

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

Positions::Positions(int64_t width, int64_t learned_rows, const InitScope& scope) : width_(width) {
  if (learned_rows == 0) return;
  const double stddev = 1 / std::sqrt(static_cast<double>(width));
  weight_ = register_parameter("weight", normal_tensor({learned_rows, width}, stddev, scope / "weight"));
}

at::Tensor Positions::table(int64_t length, const at::Tensor& like) {
  if (weight_.defined()) {
    if (length > weight_.size(0)) {
      throw Error(cat("a sentence of ", length, " tokens; the model has position vectors for ", weight_.size(0),
                      " (--max-positions); cut the line"));
    }
    return weight_;
  }
  const bool fits = cached_.defined() && cached_.size(0) >= length && cached_.dtype() == like.dtype() &&
                    cached_.device() == like.device();
  if (fits) return cached_;
  const c10::InferenceMode normal(false);  // the table outlives this pass, a later one may need gradients
  cached_ = sinusoidal_table(std::max<int64_t>(256, 2 * length), width_).to(like.options());
  return cached_;
}

at::Tensor sinusoidal_table(int64_t rows, int64_t width) {
  at::Tensor table = at::zeros({rows, width}, at::kDouble);  // an odd width keeps a zero in its last column
  auto* data = table.mutable_data_ptr<double>();
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(std::max<int64_t>(1, half - 1)));
    for (int64_t row = 0; row < rows; ++row) {
      const double angle = static_cast<double>(row + 1) * frequency;
      data[row * width + i] = std::sin(angle);
      data[row * width + half + i] = std::cos(angle);
    }
  }
  return table;
}

PackedPositions packed_positions(const at::Tensor& offsets) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  const int64_t sentences = offsets.numel() - 1;
  PackedPositions result{at::empty({bounds[sentences]}, at::kLong), 0};
  auto* position = result.position.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < sentences; ++b) {
    for (int64_t i = bounds[b]; i < bounds[b + 1]; ++i) position[i] = i - bounds[b];
    result.longest = std::max(result.longest, bounds[b + 1] - bounds[b]);
  }
  return result;
}

}  // namespace fovea::nn
