#pragma once
#include "fovea/ops/step.h"

// Every operator of step.h from PyTorch's own ones: any device and type; autograd follows from them. The reference of
// the fused kernels' tests, and what runs where those refuse.
namespace fovea::ops::composite {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  Activation activation);
at::Tensor activate(const at::Tensor& x, Activation activation);
// x or zero, by the counter-based mask, without the scale; its own transpose.
at::Tensor apply_mask(const at::Tensor& x, const DropoutOptions& options);
at::Tensor dropout(const at::Tensor& x, const DropoutOptions& options);
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps);
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);
// gated() without dropout.
at::Tensor gated(const at::Tensor& x, Activation activation);
at::Tensor embed(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& weight,
                 const std::optional<at::Tensor>& positions, double scale);
CrossEntropy cross_entropy(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets,
                           double label_smoothing);
TokenScores token_scores(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets);
void adam_step(const AdamState& state, const at::Tensor& grads, const AdamOptions& options);

}  // namespace fovea::ops::composite
