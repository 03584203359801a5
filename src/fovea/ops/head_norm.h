#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

// The operators fovea::head_norm and fovea::head_norm_backward: attention's norms in one pass over kernels/layer's
// head_norm.h, known to the dispatcher so that they can be traced.
namespace fovea::ops {

struct HeadNormInputs {
  at::Tensor z;     // [..., width], contiguous
  at::Tensor gain;  // [width]
  std::optional<at::Tensor> gate, bias;
  bool centred = false;  // layer norm; else RMS norm
};

// Dense tensors on the CPU, all float32 or all bfloat16.
bool fits_head_norm(const HeadNormInputs& in);
// The inputs must fit.
at::Tensor call_head_norm(const HeadNormInputs& in, double eps);
// call_head_norm() by ATen's operators, for any types and devices: computed in float, or in double if z is.
at::Tensor composed_head_norm(const HeadNormInputs& in, double eps);

}  // namespace fovea::ops
