#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "fovea/ops/attention.h"
#include "fovea/ops/attention_core.h"

// Checks that one call's tensors fit each other. Every function here throws an Error if its check fails.
namespace fovea::ops {

std::string shape(const at::Tensor& x);  // "[2, 8, 100, 64]"

// q, k and v are dense tensors, q of three or four dimensions.
void check_layout(const CoreTensors& inputs);

// q, k and v: [T, H, D] or [B, H, N, D], of one floating type, on one device; k and v have the heads that q's read.
void check_inputs(const CoreTensors& inputs, const kernels::KeySharing& keys = {});

// Throws an Error that begins with the caller's name if a scale is NaN, infinite or beyond float32's range.
void check_scale(std::optional<double> scale, std::string_view caller);

// The options of a call on inputs that passed check_inputs().
void check_options(const CoreTensors& inputs, const AttentionOptions& options);

// A learned alpha is given, [num_heads].
void check_alpha_shape(const std::optional<at::Tensor>& alpha, const AttentionSpec& spec, int64_t num_heads);
// Its values are of a floating type, in the range that the solvers know. Other devices' values are not read.
void check_alpha(const at::Tensor& alpha);

// The type of terms by offset that are tables, and of sums.
at::ScalarType term_type(const at::Tensor& q);
// The shapes, types and device of the terms that are defined.
void check_terms(const at::Tensor& q, const TermTensors& terms);

}  // namespace fovea::ops
