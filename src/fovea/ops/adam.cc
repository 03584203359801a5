#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/layer/reduce.h"
#include "fovea/kernels/layer/update.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/optimizers.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"

namespace fovea::ops {
namespace {

bool is_flat(const at::Tensor& tensor, at::ScalarType type, int64_t count) {
  return tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == type && tensor.numel() == count;
}

bool fits(const AdamState& state, const at::Tensor& grads) {
  const int64_t count = state.params.numel();
  const bool grads_fit = is_flat(grads, at::kFloat, count) || is_flat(grads, at::kBFloat16, count);
  return is_flat(state.params, at::kFloat, count) && is_flat(state.mean, at::kFloat, count) &&
         is_flat(state.variance, at::kFloat, count) && grads_fit &&
         (!state.copy.defined() || is_flat(state.copy, at::kBFloat16, count));
}

}  // namespace

void adam_step(const AdamState& state, const at::Tensor& grads, const AdamOptions& options) {
  const Recorded recorded("fovea::adam_step");
  if (grads.numel() != state.params.numel()) {
    throw Error(cat("adam_step: ", grads.numel(), " gradients for ", state.params.numel(), " parameters"));
  }
  if (!fits(state, grads)) return composite::adam_step(state, grads, options);
  const auto step = static_cast<double>(options.step);
  with_element(grads, [&]<class T>(T) {
    kernels::AdamPass<T> job{.params = elements<float>(state.params),
                             .mean = elements<float>(state.mean),
                             .variance = elements<float>(state.variance),
                             .grads = elements<T>(grads),
                             .copy = elements<uint16_t>(state.copy),
                             .count = grads.numel()};
    job.beta1 = options.beta1, job.beta2 = options.beta2;
    job.eps = static_cast<float>(options.eps);
    job.rate = static_cast<float>(options.learn_rate / (1 - std::pow(options.beta1, step)));
    job.variance_correction = static_cast<float>(1 / (1 - std::pow(options.beta2, step)));
    job.decay = static_cast<float>(options.learn_rate * options.weight_decay);
    job.grad_scale = static_cast<float>(options.grad_scale);
    kernels::adam(job, torch_executor());
  });
}

double l2_norm(const at::Tensor& flat) {
  const Recorded recorded("fovea::l2_norm");
  if (!flat.is_cpu() || flat.scalar_type() == at::kDouble)
    return flat.to(at::kDouble).square().sum().sqrt().item<double>();
  const at::Tensor values = flat.to(at::kFloat).contiguous();
  return std::sqrt(kernels::sum_of_squares(elements<float>(values), values.numel(), torch_executor()));
}

std::vector<double> l2_norms(std::span<const at::Tensor> tensors) {
  std::vector<std::span<const float>> parts;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat)
      parts.emplace_back(elements<float>(tensor), static_cast<size_t>(tensor.numel()));
  }
  std::vector<double> norms;
  if (parts.size() == tensors.size()) {
    norms = kernels::sums_of_squares(parts, torch_executor());
    for (double& norm : norms) norm = std::sqrt(norm);
  } else if (std::ranges::none_of(tensors, &at::Tensor::is_cpu)) {  // one wait for all
    std::vector<at::Tensor> sums;
    for (const at::Tensor& tensor : tensors) sums.push_back(tensor.to(at::kDouble).square().sum());
    const at::Tensor roots = at::stack(sums).sqrt().cpu();
    norms.assign(roots.const_data_ptr<double>(), roots.const_data_ptr<double>() + roots.numel());
  } else {
    for (const at::Tensor& tensor : tensors) norms.push_back(l2_norm(tensor));
  }
  return norms;
}

}  // namespace fovea::ops
