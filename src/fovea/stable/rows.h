#pragma once
#include "fovea/kernels/attention/attention.h"
#include "fovea/stable/arguments.h"

// Dense tensors [B, H, N, D] and packed ones [T, H, D] as rows of tokens [T, H, D], without views of torch.
namespace fovea::stable {

// The rows of a tensor for kernels to read, valid as long as this lives; a copy if no strides lead to them.
class ReadRows {
 public:
  explicit ReadRows(const Tensor& x);
  const kernels::Rows<const void>& rows() const { return rows_; }

 private:
  Tensor kept_;  // what the rows point into
  kernels::Rows<const void> rows_;
};

// An uninitialised tensor of x's sizes and type for a result: tokens follow one another.
Tensor in_order_of_tokens(const Tensor& x);

// An uninitialised tensor of x's sizes and type for its gradient, with its strides if they leave no gaps and lead to
// rows; otherwise tokens follow one another.
Tensor like(const Tensor& x);

// The rows of a tensor that in_order_of_tokens() or like() made.
kernels::Rows<void> result_rows(const Tensor& x);

}  // namespace fovea::stable
