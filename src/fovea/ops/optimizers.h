#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

// Adagrad and Adafactor; Adam is in step.h. They change the tensors in place. Kernels compute float32 on the CPU, with
// the same result for every number of threads; PyTorch's own operators compute other types and devices.
namespace fovea::ops {

struct AdagradOptions {
  double learn_rate = 1e-2, eps = 1e-10;
  double grad_scale = 1;  // multiplies the gradient first
};
// Contiguous float32 tensors of one length.
struct AdagradState {
  at::Tensor params;
  at::Tensor sum;   // of squared gradients
  at::Tensor copy;  // undefined, or bfloat16: the parameters, rounded in the same pass
};
// Duchi et al. (2011): sum += g^2, params -= learn_rate g / (sqrt(sum) + eps). grads are float32.
void adagrad_step(const AdagradState& state, const at::Tensor& grads, const AdagradOptions& options);

struct AdafactorOptions {
  double learn_rate = 1e-2;
  bool relative_step = false;  // multiplies the learning rate by max(1e-3, RMS) of each parameter
  double clip = 1;             // largest RMS of an update before the learning rate; 0: none
  double decay = 0.8;          // update t keeps 1 - t^-decay of the mean squares
  double weight_decay = 0;     // decoupled: params are first multiplied by 1 - learn_rate * weight_decay
  double grad_scale = 1;       // multiplies the gradient first
  int64_t step = 1;            // t, from 1
};
// One parameter [..., N, M], a vector or a scalar; contiguous.
struct AdafactorParameter {
  at::Tensor params, grads;  // float32
  at::Tensor copy;           // undefined, or bfloat16: the parameter, rounded in the same pass
  at::Tensor row;            // [..., N]: running mean over each row of squared gradients; undefined for a vector
  at::Tensor column;         // [..., M]: the same over each column; for a vector its elements' own
};
// A parameter of a new run: its mean squares are zero.
AdafactorParameter adafactor_parameter(const at::Tensor& params, const at::Tensor& grads, const at::Tensor& copy);
// Shazeer and Stern (2018) without a first moment.
void adafactor_step(std::span<const AdafactorParameter> parameters, const AdafactorOptions& options);

// l2_norm() of step.h, of each tensor.
std::vector<double> l2_norms(std::span<const at::Tensor> tensors);

// adagrad_step() and adafactor_step() by PyTorch's own operators, for any device and type.
namespace composite {
void adagrad_step(const AdagradState& state, const at::Tensor& grads, const AdagradOptions& options);
void adafactor_step(const AdafactorParameter& parameter, const AdafactorOptions& options);
}  // namespace composite

}  // namespace fovea::ops
