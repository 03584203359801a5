#pragma once
#include <cstdint>

#include "fovea/kernels/attention/attention.h"
#include "fovea/stable/arguments.h"

// Dense tensors [B, H, N, D] and packed ones [T, H, D] on the CPU as rows of tokens [T, H, D], without torch's views.
namespace fovea::stable {

// The rows of a tensor for kernels to read, valid as long as this lives; a copy if no strides lead to them.
class ReadRows {
 public:
  explicit ReadRows(const Tensor& x);
  const kernels::Rows<const void>& rows() const { return rows_; }
  kernels::Rows<const float> floats() const {
    return {static_cast<const float*>(rows_.data), rows_.token_stride, rows_.head_stride};
  }

 private:
  Tensor kept_;  // what the rows point into
  kernels::Rows<const void> rows_;
};

// x, or a copy of it, contiguous.
Tensor whole(const Tensor& x);

// An uninitialised tensor of x's sizes for a result, in which tokens follow one another: of `width` in place of D, and
// of another type.
Tensor in_order_of_tokens(const Tensor& x);
Tensor in_order_of_tokens(const Tensor& x, int64_t width, int32_t type);

// An uninitialised tensor of x's sizes and type for its gradient, with its strides if they leave no gaps and lead to
// rows, because autograd copies a gradient whose layout is not its tensor's; otherwise tokens follow one another.
Tensor like(const Tensor& x);

// The rows of a tensor that in_order_of_tokens() or like() made.
kernels::Rows<void> result_rows(const Tensor& x);
inline kernels::Rows<float> result_floats(const Tensor& x) {
  const kernels::Rows<void> rows = result_rows(x);
  return {static_cast<float*>(rows.data), rows.token_stride, rows.head_stride};
}

}  // namespace fovea::stable
