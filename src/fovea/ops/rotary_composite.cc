#include "fovea/ops/rotary_composite.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace fovea::ops::composite {

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, double base) {
  const int64_t half = x.size(2) / 2;
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor exponents = at::arange(half, at::kDouble) * (-2.0 / static_cast<double>(x.size(2)));
  const at::Tensor angles = positions.to(at::kDouble).unsqueeze(1) * at::pow(base, exponents);  // [T, D / 2]
  const auto of_heads = [&](const at::Tensor& of_angle) { return of_angle.to(x.device(), type).unsqueeze(1); };
  const at::Tensor cosine = of_heads(angles.cos()), sine = of_heads(angles.sin());
  const at::Tensor wide = x.to(type), a = wide.narrow(2, 0, half), b = wide.narrow(2, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 2).to(x.scalar_type());
}

}  // namespace fovea::ops::composite
