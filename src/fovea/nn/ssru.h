#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/nn/init.h"
#include "fovea/ops/prepacked_layer.h"

// A simpler simple recurrent unit (Kim et al. 2019) in the place of a decoder's self-attention: Marian's
// `dec-cell: ssru`. M width of the model.
namespace fovea::nn {

// c = f c + (1 - f) x W^T, f = sigmoid(x W_f^T + b_f), out = relu(c). Parameters: weight [2 M, M], W followed by W_f,
// and gate_bias [M], b_f.
class Ssru : public torch::nn::Module {
 public:
  Ssru(int64_t width, const InitScope& scope);
  // A full pass over a packed batch, x [T, M] with offsets [B + 1] -> [T, M]; c is 0 before each sequence.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& offsets) const;
  // The products with both matrices, [T, M] -> [T, 2 M], laid out for many small inputs.
  ops::PrepackedLayer prepacked(ops::PrepackedLayer::Format format) const { return {weight_, bias(), format}; }
  // From now on full passes compute these products with the weights as they are now, in int8, without gradients.
  void use_int8() { int8_.emplace(prepacked(ops::PrepackedLayer::Format::kInt8)); }

 private:
  at::Tensor bias() const;  // [2 M]: 0 for W

  at::Tensor weight_, gate_bias_;
  std::optional<ops::PrepackedLayer> int8_;
};

// The states c of the units of a stack between steps, for R rows.
class SsruSteps {
 public:
  // `options`: of the weights.
  SsruSteps(int64_t layers, int64_t rows, int64_t width, const at::TensorOptions& options);
  // The next token of each row: what Ssru::prepacked() made of it, [R, 2 M] -> [R, M].
  at::Tensor step(size_t layer, const at::Tensor& projected);
  // Row r continues what was row parents[r].
  void inherit(std::span<const int64_t> parents);
  // Adds rows that begin, behind the others.
  void add_rows(int64_t count);

 private:
  std::vector<at::Tensor> states_;  // of each layer, [R, M]
};

}  // namespace fovea::nn
