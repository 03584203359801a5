#pragma once
#include <ATen/core/Tensor.h>

// The recurrence of a simpler simple recurrent unit (SSRU, Kim et al. 2019), an operator with its own backward. T
// tokens of all sequences, M width. projected [T, 2 M] holds v and g side by side, and with f = sigmoid(g), c = 0
// before the first token of a sequence,
//   c = f c + (1 - f) v,  out = relu(c).
namespace fovea::ops {

// -> out [T, M]; offsets [B + 1] int64 on the CPU. A sequence's result depends on it alone.
at::Tensor ssru(const at::Tensor& projected, const at::Tensor& offsets);

// One more token of each row, without gradients: projected [R, 2 M] -> out [R, M], with the bits of ssru() where
// kernels compute. states [R, M] hold c, float32 or, where the rows are, float64; they become those after the token.
at::Tensor ssru_step(const at::Tensor& projected, at::Tensor& states);

}  // namespace fovea::ops
