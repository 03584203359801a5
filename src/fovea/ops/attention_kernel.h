#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/kernels/attention/attention.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/reference.h"

// A fast kernel on the tensors of one call, by their pointers and strides, on torch's threads.
namespace fovea::ops {

// [T_q, H, D]; fills `stats` and `kept` where the problem needs backward.
at::Tensor kernel_forward(const kernels::Kernel& kernel, const ReferenceCall& call, const at::Tensor& stats,
                          const at::Tensor& kept);

// `saved` as forward left it, grad_out [T_q, H, D].
ReferenceGradients kernel_backward(const kernels::Kernel& kernel, const ReferenceCall& call, const CoreOutput& saved,
                                   const at::Tensor& grad_out);

}  // namespace fovea::ops
