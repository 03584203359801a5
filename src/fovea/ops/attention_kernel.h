#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/attention_core.h"
#include "fovea/ops/token_call.h"

// Fast kernels on the tensors of one call, by their pointers and strides, on torch's threads.
namespace fovea::ops {

// What backward reads: [T_q, H, floats a row] and [T_q, H, ints a row].
struct SavedTensors {
  at::Tensor stats, kept;
};

// [T_q, H, D]; fills `saved` where the problem needs backward.
at::Tensor kernel_forward(const kernels::Division& division, const TokenCall& call, const SavedTensors& saved);

// `saved` as forward left it, grad_out [T_q, H, D].
TokenGradients kernel_backward(const kernels::Division& division, const TokenCall& call, const CoreOutput& saved,
                               const at::Tensor& grad_out);

}  // namespace fovea::ops
