#pragma once
#include <ATen/core/Tensor.h>

namespace fovea::ops::composite {

// rotary() of PyTorch's own operators: any device and type, in float32, or in double where x is; as step_composite.h.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, double base);

}  // namespace fovea::ops::composite
