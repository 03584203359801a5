#include "fovea/ops/rotary_composite.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace fovea::ops::composite {

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const RotaryAngles& turn) {
  const int64_t half = x.size(2) / 2;
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor frequencies = at::tensor(turn.frequencies, at::kDouble);
  const at::Tensor angles = positions.to(at::kDouble).unsqueeze(1) * frequencies;  // [T, D / 2]
  const auto of_heads = [&](const at::Tensor& of_angle) {
    return (of_angle * turn.scale).to(x.device(), type).unsqueeze(1);
  };
  const at::Tensor cosine = of_heads(angles.cos()), sine = of_heads(angles.sin());
  const at::Tensor wide = x.to(type), a = wide.narrow(2, 0, half), b = wide.narrow(2, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 2).to(x.scalar_type());
}

}  // namespace fovea::ops::composite
