#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/attention_core.h"
#include "fovea/ops/token_call.h"

// Fast kernels on the tensors of one call, by their pointers and strides, on torch's threads.
namespace fovea::ops {

// The results of forward that backward reads: [T_q, H, floats per row] and [T_q, H, ints per row].
struct SavedTensors {
  at::Tensor stats, kept;
};

// Fills `saved` where the problem needs backward.
TokenOutput kernel_forward(const kernels::KernelChoice& choice, const TokenCall& call, const SavedTensors& saved);

// `saved` as forward left it.
TokenGradients kernel_backward(const kernels::KernelChoice& choice, const TokenCall& call, const CoreOutput& saved,
                               const TokenCotangents& given, const WantedTerms& wanted);

}  // namespace fovea::ops
