#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/call/checks.h"
#include "fovea/kernels/layer/norm.h"
#include "fovea/ops/step.h"

// The way between tensors and the kernels of kernels/layer: which tensors the kernels take, and their pointers.
namespace fovea::ops {

inline at::Tensor tensor_or_none(const std::optional<at::Tensor>& tensor) { return tensor ? *tensor : at::Tensor(); }

// Wraps a tensor for autograd functions, which refuse undefined tensors.
inline std::optional<at::Tensor> some_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Dense tensors on the CPU, all float32 or all bfloat16; undefined ones do not count.
inline bool fits_kernels(std::initializer_list<at::Tensor> tensors) {
  const at::ScalarType type = tensors.begin()->scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return false;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && (!tensor.is_cpu() || tensor.layout() != at::kStrided || tensor.scalar_type() != type)) {
      return false;
    }
  }
  return true;
}

inline bool wants_gradient(at::TensorList tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) return true;
  }
  return false;
}

// Forward-mode derivatives would come out as zeros.
inline void refuse_tangents(at::TensorList tensors, std::string_view name) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor._fw_grad(0).defined()) kernels::refuse_tangents(name);
  }
}

// Kernels give first derivatives alone: second ones would come out without their part of the graph. At the head of a
// backward, which autograd records under create_graph only.
inline void refuse_second_derivatives(std::string_view name) {
  if (at::GradMode::is_enabled()) kernels::refuse_second_derivatives(name);
}

// T is float, or uint16_t for the bits of bfloat16. Null for an undefined tensor.
template <class T>
T* elements(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}

// work(float()) or work(uint16_t()).
template <class Work>
void with_element(const at::Tensor& tensor, Work&& work) {
  if (tensor.scalar_type() == at::kFloat) return work(float());
  work(uint16_t());
}

// Rows whose elements lie side by side, at any distance but zero.
inline at::Tensor with_plain_rows(const at::Tensor& matrix) {
  const bool plain = matrix.stride(1) == 1 && (matrix.stride(0) >= matrix.size(1) || matrix.size(0) == 1);
  return plain ? matrix : matrix.contiguous();
}

using kernels::check_rate;

inline kernels::DropoutMask mask_of(const DropoutOptions& options) {
  return {.rate = static_cast<float>(options.rate), .seed = options.seed};
}

}  // namespace fovea::ops
