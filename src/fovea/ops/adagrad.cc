#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/layer/update.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/optimizers.h"

namespace fovea::ops {
namespace {

bool adagrad_fits(const AdagradState& state, const at::Tensor& grads) {
  const auto fits = [&](const at::Tensor& tensor, at::ScalarType type) {
    return tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == type;
  };
  return fits(state.params, at::kFloat) && fits(state.sum, at::kFloat) && fits(grads, at::kFloat) &&
         (!state.copy.defined() || fits(state.copy, at::kBFloat16));
}

}  // namespace

void composite::adagrad_step(const AdagradState& state, const at::Tensor& grads, const AdagradOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor grad = grads.to(state.params.scalar_type()) * options.grad_scale;
  state.sum.addcmul_(grad, grad);
  state.params.addcdiv_(grad, state.sum.sqrt().add_(options.eps), -options.learn_rate);
  if (state.copy.defined()) state.copy.copy_(state.params);
}

void adagrad_step(const AdagradState& state, const at::Tensor& grads, const AdagradOptions& options) {
  const int64_t count = state.params.numel();
  if (grads.numel() != count || state.sum.numel() != count)
    throw Error(
        cat("adagrad_step: ", grads.numel(), " gradients and ", state.sum.numel(), " sums for ", count, " parameters"));
  if (!adagrad_fits(state, grads)) return composite::adagrad_step(state, grads, options);
  kernels::adagrad({.params = elements<float>(state.params),
                    .sum = elements<float>(state.sum),
                    .grads = elements<float>(grads),
                    .copy = elements<uint16_t>(state.copy),
                    .count = count,
                    .eps = static_cast<float>(options.eps),
                    .rate = static_cast<float>(options.learn_rate),
                    .grad_scale = static_cast<float>(options.grad_scale)},
                   torch_executor());
}

}  // namespace fovea::ops
