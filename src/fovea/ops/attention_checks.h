#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "fovea/ops/attention.h"
#include "fovea/ops/attention_core.h"

// Checks that one call's tensors fit each other. Sizes may be symbols, so only the sizes on which a rule depends are
// read. Every function here throws an Error if its check fails.
namespace fovea::ops {

std::string shape(const at::Tensor& x);  // "[2, 8, 100, 64]"

// q, k and v: [T, H, D] or [B, H, N, D], of one floating type, on one device; k and v have the heads that q's read.
void check_inputs(const CoreTensors& inputs, const kernels::KeySharing& keys = {});

// Throws an Error that begins with the caller's name if a scale is NaN, infinite or beyond float32's range.
void check_scale(std::optional<double> scale, std::string_view caller);

// The options of a call on inputs that passed check_inputs().
void check_options(const CoreTensors& inputs, const AttentionOptions& options);

// A learned alpha: [num_heads], of a floating type, in the range that the solvers know. Other devices' values are not
// read.
void check_alpha(const at::Tensor& alpha, int64_t num_heads);

// The type of terms by offset that are tables, and of sums.
at::ScalarType term_type(const at::Tensor& q);
// The shapes, types and device of the terms that are defined.
void check_terms(const at::Tensor& q, const TermTensors& terms);
// Sums as forward left them, `count` a row, and their gradient where there is one.
void check_sums(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& sums, int64_t count);

// Checks the inputs of backward: grad_out and out are shaped like q; stats and kept, on the CPU, hold `size` for each
// token and head. Their contents are trusted to come from forward.
void check_saved(const at::Tensor& grad_out, const at::Tensor& q, const CoreOutput& saved,
                 const kernels::SavedPerRow& size);

}  // namespace fovea::ops
