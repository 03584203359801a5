#include "fovea/nn/ssru.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "fovea/nn/index_tensor.h"
#include "fovea/ops/ssru.h"
#include "fovea/ops/step.h"

namespace fovea::nn {

Ssru::Ssru(int64_t width, const InitScope& scope)
    : weight_(register_parameter("weight",
                                 uniform_tensor({2 * width, width}, xavier_limit(width, width), scope / "weight"))),
      gate_bias_(register_parameter("gate_bias", constant_tensor({width}, 0, scope))) {}

at::Tensor Ssru::bias() const { return at::cat({at::zeros_like(gate_bias_), gate_bias_}); }

at::Tensor Ssru::operator()(const at::Tensor& x, const at::Tensor& offsets) const {
  return ops::ssru(int8_ ? (*int8_)(x) : ops::linear(x, weight_, bias()), offsets);
}

SsruSteps::SsruSteps(int64_t layers, int64_t rows, int64_t width, const at::TensorOptions& options) {
  // In bfloat16, states are kept in float32, in which a full pass computes them.
  const bool is_double = c10::typeMetaToScalarType(options.dtype()) == at::kDouble;
  for (int64_t layer = 0; layer < layers; ++layer)
    states_.push_back(at::zeros({rows, width}, options.dtype(is_double ? at::kDouble : at::kFloat)));
}

at::Tensor SsruSteps::step(size_t layer, const at::Tensor& projected) {
  return ops::ssru_step(projected, states_[layer]);
}

void SsruSteps::inherit(std::span<const int64_t> parents) {
  if (states_.empty()) return;
  const at::Tensor rows = index_tensor(parents).to(states_[0].device());
  for (at::Tensor& states : states_) states = states.index_select(0, rows);
}

void SsruSteps::add_rows(int64_t count) {
  for (at::Tensor& states : states_) states = at::cat({states, at::zeros({count, states.size(1)}, states.options())});
}

}  // namespace fovea::nn
