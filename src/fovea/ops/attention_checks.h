#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "fovea/kernels/call/checks.h"
#include "fovea/ops/attention_core.h"

// The checks of kernels/call on tensors.
namespace fovea::ops {

std::string shape(const at::Tensor& x);  // "[2, 8, 100, 64]"

// The type of terms by offset that are tables, and of sums.
at::ScalarType term_type(const at::Tensor& q);

// Views of q, k and v; valid as long as these.
kernels::QkvViews views_of(const CoreTensors& x);
// Views of the options' tensors.
kernels::LayerViews layer_views(const AttentionOptions& options);
kernels::TermViews term_views(const TermTensors& terms);

}  // namespace fovea::ops
