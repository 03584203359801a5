#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/spec/rotary_angles.h"

namespace fovea::ops::composite {

// rotary() from PyTorch's own operators, for any device and type. Computes in double if x is double, else in float32.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const RotaryAngles& angles);

}  // namespace fovea::ops::composite
