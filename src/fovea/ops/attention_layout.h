#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "fovea/kernels/call/call.h"
#include "fovea/ops/attention_core.h"

// Packed [T, H, D] and dense [B, H, N, D] tensors as rows of tokens with a list of sequences.
namespace fovea::ops {

// The tensor as code without torch reads it; valid as long as `x`, which is not moved.
kernels::TensorView view_of(const at::Tensor& x);
std::optional<kernels::TensorView> view_of(const std::optional<at::Tensor>& x);
std::optional<kernels::TensorView> view_of_defined(const at::Tensor& x);  // nothing if `x` is undefined
kernels::SequenceVectors vectors_of(const AttentionOptions& options);

// [T, H, D] or [B * N, H, D]: a view wherever the strides allow one.
at::Tensor token_rows(const at::Tensor& x);

// Rows [T, H, D] in the layout of `like`: themselves, or [B, N, H, D] seen as [B, H, N, D]. D may differ from its own.
at::Tensor from_token_rows(const at::Tensor& rows, const at::Tensor& like);

// Uninitialised rows for the gradient of rows, with their strides where those leave no gaps: autograd copies a gradient
// whose layout is not its tensor's.
at::Tensor rows_like(const at::Tensor& rows, const at::TensorOptions& options);

struct QueryKey {
  const at::Tensor& q;
  const at::Tensor& k;
};
// Reads the offsets or lengths; throws an Error if they do not fit the tensors.
std::vector<kernels::Sequence> sequences_of(const QueryKey& x, const AttentionOptions& options);

}  // namespace fovea::ops
