#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/kernels/call/groups.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/token_call.h"

// Fast kernels on the tensors of one call, by their pointers and strides, on torch's threads.
namespace fovea::ops {

struct KernelCall {
  const kernels::GroupedCall& groups;
  const kernels::GroupKernels& kernels;  // which take it
  const TokenCall& tokens;               // of all heads
};

// Fills `saved` where the problem needs backward.
TokenOutput kernel_forward(const KernelCall& call, const SavedTensors& saved);

// `output` as forward left it.
TokenGradients kernel_backward(const KernelCall& call, const LayerOutput& output, const TokenCotangents& given,
                               const WantedTerms& wanted);

}  // namespace fovea::ops
