#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

// Attention's norms in one pass of kernels/layer's head_norm.h.
namespace fovea::ops {

struct HeadNormInputs {
  at::Tensor z;     // [..., width], contiguous
  at::Tensor gain;  // [width]
  std::optional<at::Tensor> gate, bias;
  bool centred = false;  // layer norm; else RMS norm
};

// Dense tensors on the CPU, all float32 or all bfloat16.
bool fits_head_norm(const HeadNormInputs& in);
// Differentiable once, in every tensor. The inputs must fit.
at::Tensor head_norm(const HeadNormInputs& in, double eps);
// head_norm() by ATen's operators, for any types and devices: computed in float, or in double if z is.
at::Tensor composed_head_norm(const HeadNormInputs& in, double eps);

}  // namespace fovea::ops
