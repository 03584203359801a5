#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "fovea/kernels/layer/adafactor.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/optimizers.h"

namespace fovea::ops {
namespace {

bool adafactor_fits(const AdafactorParameter& parameter) {
  const auto fits = [&](const at::Tensor& tensor, at::ScalarType type) {
    return !tensor.defined() || (tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == type);
  };
  return fits(parameter.params, at::kFloat) && fits(parameter.grads, at::kFloat) && fits(parameter.row, at::kFloat) &&
         fits(parameter.column, at::kFloat) && fits(parameter.copy, at::kBFloat16);
}

kernels::AdafactorTensor adafactor_tensor(const AdafactorParameter& parameter) {
  kernels::AdafactorTensor tensor{.params = elements<float>(parameter.params),
                                  .grads = elements<float>(parameter.grads),
                                  .copy = elements<uint16_t>(parameter.copy),
                                  .row = elements<float>(parameter.row),
                                  .column = elements<float>(parameter.column)};
  tensor.columns = parameter.params.numel();
  if (!parameter.row.defined()) return tensor;
  tensor.rows = parameter.params.size(-2);
  tensor.columns = parameter.params.size(-1);
  tensor.matrices = parameter.params.numel() / (tensor.rows * tensor.columns);
  return tensor;
}

// A number on the tensor's device, in double, so that a step never waits for a GPU.
at::Tensor root_mean_square(const at::Tensor& values) { return values.to(at::kDouble).square().mean().sqrt(); }

}  // namespace

AdafactorParameter adafactor_parameter(const at::Tensor& params, const at::Tensor& grads, const at::Tensor& copy) {
  AdafactorParameter parameter{.params = params, .grads = grads, .copy = copy, .row = {}, .column = {}};
  if (params.dim() < 2) {
    parameter.column = at::zeros_like(params);
    return parameter;
  }
  std::vector<int64_t> rows = params.sizes().vec(), columns = rows;
  rows.pop_back();
  columns.erase(columns.end() - 2);
  parameter.row = at::zeros(rows, params.options().requires_grad(false));
  parameter.column = at::zeros(columns, params.options().requires_grad(false));
  return parameter;
}

void composite::adafactor_step(const AdafactorParameter& parameter, const AdafactorOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor& params = parameter.params;
  const double fresh = std::pow(static_cast<double>(options.step), -options.decay);
  const at::Tensor grad = parameter.grads.to(params.scalar_type()) * options.grad_scale;
  const at::Tensor squares = grad.square().add_(1e-30);
  at::Tensor change;
  if (parameter.row.defined()) {
    parameter.row.mul_(1 - fresh).add_(squares.mean(-1), fresh);
    parameter.column.mul_(1 - fresh).add_(squares.mean(-2), fresh);
    const at::Tensor share = parameter.row / parameter.row.mean(-1, true);
    change = grad * share.rsqrt().unsqueeze(-1) * parameter.column.rsqrt().unsqueeze(-2);
  } else {
    parameter.column.mul_(1 - fresh).add_(squares, fresh);
    change = grad * parameter.column.rsqrt();
  }
  at::Tensor rate = at::full({}, options.learn_rate, params.options().dtype(at::kDouble));
  if (options.relative_step) rate = rate * root_mean_square(params).clamp_min(1e-3);
  if (options.clip > 0) rate = rate / (root_mean_square(change) / options.clip).clamp_min(1);
  if (options.weight_decay != 0) params.mul_(1 - options.learn_rate * options.weight_decay);
  params.sub_(change * rate);
  if (parameter.copy.defined()) parameter.copy.copy_(params);
}

void adafactor_step(std::span<const AdafactorParameter> parameters, const AdafactorOptions& options) {
  if (!std::ranges::all_of(parameters, adafactor_fits)) {
    for (const AdafactorParameter& parameter : parameters) composite::adafactor_step(parameter, options);
    return;
  }
  std::vector<kernels::AdafactorTensor> tensors;
  for (const AdafactorParameter& parameter : parameters) {
    if (parameter.params.numel() > 0) tensors.push_back(adafactor_tensor(parameter));
  }
  kernels::AdafactorPass job{.tensors = tensors};
  job.grad_scale = static_cast<float>(options.grad_scale);
  job.fresh = static_cast<float>(std::pow(static_cast<double>(options.step), -options.decay));
  job.decay = static_cast<float>(options.learn_rate * options.weight_decay);
  job.rate = options.learn_rate;
  job.relative = options.relative_step;
  job.clip = options.clip;
  kernels::adafactor(job, torch_executor());
}

}  // namespace fovea::ops
