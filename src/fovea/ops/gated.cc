#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/kernels/layer/gated.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::Gate gate_of(Activation activation) {
  if (activation == Activation::kSilu) return kernels::Gate::kSilu;
  return activation == Activation::kGelu ? kernels::Gate::kGelu : kernels::Gate::kGeluTanh;
}

// The units of a layer and their dropout.
struct UnitOptions {
  Activation activation;
  kernels::Units units;
  DropoutOptions dropout;
  int64_t parts() const { return units == kernels::Units::kGated ? 2 : 1; }
};

at::Tensor units_forward(const at::Tensor& x, const UnitOptions& options) {
  at::Tensor out = at::empty({x.size(0), x.size(1) / options.parts()}, x.options());
  with_element(x, [&]<class T>(T) {
    kernels::GatedForward<T> job{.x = elements<T>(x), .out = elements<T>(out)};
    job.rows = out.size(0), job.width = out.size(1), job.x_stride = x.stride(0);
    job.gate = gate_of(options.activation), job.units = options.units;
    job.dropout = mask_of(options.dropout);
    kernels::gated(job, torch_executor());
  });
  return out;
}

at::Tensor units_backward(const at::Tensor& x, const at::Tensor& grad_out, const UnitOptions& options) {
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  with_element(x, [&]<class T>(T) {
    kernels::GatedBackward<T> job{
        .x = elements<T>(x), .grad_out = elements<T>(grad_out), .grad_x = elements<T>(grad_x)};
    job.rows = grad_out.size(0), job.width = grad_out.size(1), job.x_stride = x.stride(0);
    job.gate = gate_of(options.activation), job.units = options.units;
    job.dropout = mask_of(options.dropout);
    kernels::gated(job, torch_executor());
  });
  return grad_x;
}

// The activation is computed again in backward: reading x is cheaper than storing more.
struct LayerUnits : torch::autograd::Function<LayerUnits> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const UnitOptions& options) {
    context->save_for_backward({x});
    context->saved_data["activation"] = static_cast<int64_t>(options.activation);
    context->saved_data["units"] = static_cast<int64_t>(options.units);
    context->saved_data["rate"] = options.dropout.rate;
    context->saved_data["seed"] = options.dropout.seed;
    return units_forward(x, options);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = [&](const char* name) { return context->saved_data[name].toInt(); };
    const UnitOptions options{.activation = static_cast<Activation>(saved("activation")),
                              .units = static_cast<kernels::Units>(saved("units")),
                              .dropout = {.rate = context->saved_data["rate"].toDouble(), .seed = saved("seed")}};
    refuse_second_derivatives(options.units == kernels::Units::kGated ? "gated" : "activated");
    return {units_backward(context->get_saved_variables()[0], grads[0].contiguous(), options), {}};
  }
};

// x must fit the kernels.
at::Tensor units_of(const at::Tensor& x, const UnitOptions& options) {
  const at::Tensor rows = with_plain_rows(x);
  return wants_gradient({x}) ? LayerUnits::apply(rows, options) : units_forward(rows, options);
}

bool has_kernel(Activation activation) { return activation != Activation::kNone && activation != Activation::kRelu; }

}  // namespace

at::Tensor gated(const at::Tensor& x, Activation activation, const DropoutOptions& options) {
  const Recorded recorded("fovea::gated");
  check_rate(options.rate, "gated: dropout");
  if (!has_kernel(activation)) {
    throw Error("gated: the activation is neither gelu nor silu; use one of them");
  }
  if (x.dim() != 2 || x.size(1) % 2 != 0) {
    throw Error(cat("gated: x has ", x.dim(), " dimensions, the last of ", x.dim() > 0 ? x.size(-1) : 0,
                    "; expected two, the last one even: [T, 2 F]"));
  }
  if (!fits_kernels({x})) return dropout(composite::gated(x, activation), options);
  return units_of(x, {activation, kernels::Units::kGated, options});
}

at::Tensor activated(const at::Tensor& x, Activation activation, const DropoutOptions& options) {
  const Recorded recorded("fovea::activated");
  check_rate(options.rate, "activated: dropout");
  if (!has_kernel(activation) || !fits_kernels({x}) || x.dim() != 2)
    return dropout(composite::activate(x, activation), options);
  return units_of(x, {activation, kernels::Units::kPlain, options});
}

}  // namespace fovea::ops
