#include "fovea/ops/step.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "fovea/ops/step_composite.h"

namespace fovea::ops {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  Activation activation) {
  return composite::linear(x, weight, bias, activation);
}

at::Tensor dropout(const at::Tensor& x, const DropoutOptions& options) { return composite::dropout(x, options); }

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps) {
  return composite::layer_norm(x, gain, bias, eps);
}

std::tuple<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                                            const at::Tensor& bias, const DropoutOptions& options, double eps) {
  const at::Tensor sum = residual + dropout(x, options);
  return {sum, layer_norm(sum, gain, bias, eps)};
}

at::Tensor embed(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& weight,
                 const std::optional<at::Tensor>& positions, double scale, const DropoutOptions& options) {
  return dropout(composite::embed(ids, position, weight, positions, scale), options);
}

CrossEntropy cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           const at::Tensor& targets, double label_smoothing) {
  return composite::cross_entropy(hidden, weight, bias, targets, label_smoothing);
}

at::Tensor token_nll(const at::Tensor& hidden, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                     const at::Tensor& targets) {
  return composite::token_nll(hidden, weight, bias, targets);
}

void adam_step(const AdamState& state, const at::Tensor& grads, const AdamOptions& options) {
  composite::adam_step(state, grads, options);
}

void adam_step(at::Tensor& params, const at::Tensor& grads, at::Tensor& mean, at::Tensor& variance,
               const AdamOptions& options) {
  adam_step({.params = params, .mean = mean, .variance = variance, .copy = {}}, grads, options);
}

double norm(const at::Tensor& flat) { return flat.to(at::kDouble).square().sum().sqrt().item<double>(); }

}  // namespace fovea::ops
