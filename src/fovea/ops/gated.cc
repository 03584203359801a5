#include "fovea/kernels/step/gated.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/ops/executor.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"
#include "fovea/ops/step_tensors.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::Gate gate_of(Activation activation) {
  return activation == Activation::kGelu ? kernels::Gate::kGelu : kernels::Gate::kSilu;
}

at::Tensor gated_forward(const at::Tensor& x, Activation activation, const DropoutOptions& dropout) {
  at::Tensor out = at::empty({x.size(0), x.size(1) / 2}, x.options());
  with_element(x, [&]<class T>(T) {
    kernels::GatedForward<T> job{.x = elements<T>(x), .out = elements<T>(out)};
    job.rows = out.size(0), job.width = out.size(1), job.x_stride = x.stride(0);
    job.gate = gate_of(activation);
    job.dropout = mask_of(dropout);
    kernels::gated(job, torch_executor());
  });
  return out;
}

at::Tensor gated_backward(const at::Tensor& x, const at::Tensor& grad_out, Activation activation,
                          const DropoutOptions& dropout) {
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  with_element(x, [&]<class T>(T) {
    kernels::GatedBackward<T> job{
        .x = elements<T>(x), .grad_out = elements<T>(grad_out), .grad_x = elements<T>(grad_x)};
    job.rows = grad_out.size(0), job.width = grad_out.size(1), job.x_stride = x.stride(0);
    job.gate = gate_of(activation);
    job.dropout = mask_of(dropout);
    kernels::gated(job, torch_executor());
  });
  return grad_x;
}

// The activation is computed again in backward: reading x is cheaper than storing more.
struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Activation activation,
                            const DropoutOptions& dropout) {
    context->save_for_backward({x});
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    context->saved_data["rate"] = dropout.rate;
    context->saved_data["seed"] = dropout.seed;
    return gated_forward(x, activation, dropout);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("gated");
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    const DropoutOptions dropout{.rate = context->saved_data["rate"].toDouble(),
                                 .seed = context->saved_data["seed"].toInt()};
    return {gated_backward(context->get_saved_variables()[0], grads[0].contiguous(), activation, dropout), {}, {}};
  }
};

}  // namespace

at::Tensor gated(const at::Tensor& x, Activation activation, const DropoutOptions& options) {
  check_rate(options.rate, "gated: dropout");
  if (activation != Activation::kGelu && activation != Activation::kSilu) {
    throw Error("gated: the activation is neither gelu nor silu; use one of them");
  }
  if (x.dim() != 2 || x.size(1) % 2 != 0) {
    throw Error(cat("gated: x has ", x.dim(), " dimensions, the last of ", x.dim() > 0 ? x.size(-1) : 0,
                    "; expected two, the last one even: [T, 2 F]"));
  }
  if (!fits_kernels({x})) return dropout(composite::gated(x, activation), options);
  const at::Tensor rows = with_plain_rows(x);
  if (wants_gradient({x})) return Gated::apply(rows, activation, options);
  return gated_forward(rows, activation, options);
}

}  // namespace fovea::ops
