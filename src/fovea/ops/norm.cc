#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/kernels/layer/norm.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor drop(const at::Tensor& x, const DropoutOptions& options) {
  at::Tensor out = at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
  with_element(x, [&]<class T>(T) {
    kernels::drop(kernels::DropoutPass<T>{elements<T>(x), elements<T>(out), x.numel(), mask_of(options)},
                  torch_executor());
  });
  return out;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double rate, int64_t seed) {
    context->saved_data["rate"] = rate;
    context->saved_data["seed"] = seed;
    return drop(x, {.rate = rate, .seed = seed});
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {apply(grads[0].contiguous(), context->saved_data["rate"].toDouble(), context->saved_data["seed"].toInt()),
            {},
            {}};
  }
};

// The inputs of layer norm; without a bias, of RMS norm.
struct NormInputs {
  at::Tensor x, residual, gain, bias;  // residual and bias may be undefined
  DropoutOptions dropout;
  double eps = 0;
};

struct Normed {
  at::Tensor sum, out, mean, rstd;  // mean undefined: RMS norm
};

Normed norm_forward(const NormInputs& in) {
  const bool is_sum = !in.residual.defined() && in.dropout.rate == 0;  // x itself is what is normalised
  Normed result{.sum = is_sum ? in.x : at::empty_like(in.x), .out = at::empty_like(in.x), .mean = {}, .rstd = {}};
  result.rstd = at::empty({in.x.size(0)}, in.x.options().dtype(at::kFloat));
  if (in.bias.defined()) result.mean = at::empty_like(result.rstd);
  with_element(in.x, [&]<class T>(T) {
    kernels::NormForward<T> job{.x = elements<T>(in.x),
                                .residual = elements<T>(in.residual),
                                .gain = elements<T>(in.gain),
                                .bias = elements<T>(in.bias),
                                .sum = is_sum ? nullptr : elements<T>(result.sum),
                                .out = elements<T>(result.out),
                                .mean = elements<float>(result.mean),
                                .rstd = elements<float>(result.rstd)};
    job.rows = in.x.size(0), job.width = in.x.size(1);
    job.eps = static_cast<float>(in.eps);
    job.dropout = mask_of(in.dropout);
    kernels::norm_forward(job, torch_executor());
  });
  return result;
}

struct NormGrads {
  at::Tensor x, residual, gain, bias;
};

struct SavedNorm {
  at::Tensor sum, gain, mean, rstd;  // mean undefined: RMS norm
  DropoutOptions dropout;
};

NormGrads norm_backward(const SavedNorm& saved, const at::Tensor& grad_sum, const at::Tensor& grad_out) {
  NormGrads grads{.x = {}, .residual = at::empty_like(saved.sum), .gain = at::empty_like(saved.gain), .bias = {}};
  grads.x = saved.dropout.rate > 0 ? at::empty_like(saved.sum) : grads.residual;
  if (saved.mean.defined()) grads.bias = at::empty_like(saved.gain);
  with_element(saved.sum, [&]<class T>(T) {
    kernels::NormBackward<T> job{.sum = elements<T>(saved.sum),
                                 .gain = elements<T>(saved.gain),
                                 .mean = elements<float>(saved.mean),
                                 .rstd = elements<float>(saved.rstd),
                                 .grad_out = elements<T>(grad_out),
                                 .grad_sum = elements<T>(grad_sum)};
    job.grad_residual = elements<T>(grads.residual);
    job.grad_x = saved.dropout.rate > 0 ? elements<T>(grads.x) : nullptr;
    job.grad_gain = elements<T>(grads.gain), job.grad_bias = elements<T>(grads.bias);
    job.rows = saved.sum.size(0), job.width = saved.sum.size(1);
    job.dropout = mask_of(saved.dropout);
    kernels::norm_backward(job, torch_executor());
  });
  return grads;
}

at::Tensor contiguous_or_none(const at::Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; }

// (sum, out) of x, residual, gain, bias; RMS norm without a bias.
struct AddNormFunction : torch::autograd::Function<AddNormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& residual,
                               const at::Tensor& gain, const std::optional<at::Tensor>& bias, double rate, int64_t seed,
                               double eps) {
    const Normed result = norm_forward({x, residual, gain, tensor_or_none(bias), {.rate = rate, .seed = seed}, eps});
    context->save_for_backward({result.sum, gain, result.mean, result.rstd});
    context->saved_data["rate"] = rate;
    context->saved_data["seed"] = seed;
    context->set_materialize_grads(false);
    return {result.sum, result.out};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    refuse_second_derivatives(saved[2].defined() ? "add_norm" : "add_rms_norm");
    const DropoutOptions dropout{.rate = context->saved_data["rate"].toDouble(),
                                 .seed = context->saved_data["seed"].toInt()};
    const at::Tensor grad_sum = contiguous_or_none(grads[0]), grad_out = contiguous_or_none(grads[1]);
    if (!grad_out.defined()) {
      return {
          grad_sum.defined() && dropout.rate > 0 ? drop(grad_sum, dropout) : grad_sum, grad_sum, {}, {}, {}, {}, {}};
    }
    NormGrads of = norm_backward({saved[0], saved[1], saved[2], saved[3], dropout}, grad_sum, grad_out);
    return {of.x, of.residual, of.gain, of.bias, {}, {}, {}};
  }
};

// Layer norm, or RMS norm without a bias.
struct NormFunction : torch::autograd::Function<NormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            const std::optional<at::Tensor>& bias, double eps) {
    const Normed result = norm_forward({x, {}, gain, tensor_or_none(bias), {}, eps});
    context->save_for_backward({x, gain, result.mean, result.rstd});
    return result.out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    refuse_second_derivatives(saved[2].defined() ? "layer_norm" : "rms_norm");
    NormGrads of = norm_backward({saved[0], saved[1], saved[2], saved[3], {}}, {}, grads[0].contiguous());
    return {of.residual, of.gain, of.bias, {}};
  }
};

// bias may be undefined.
bool fits_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias) {
  const auto is_row = [&](const at::Tensor& vector) { return vector.is_contiguous() && vector.numel() == x.size(1); };
  return fits_kernels({x, gain, bias}) && x.dim() == 2 && x.size(1) > 0 && is_row(gain) &&
         (!bias.defined() || is_row(bias));
}

// The inputs must fit.
at::Tensor normed_rows(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps) {
  const at::Tensor rows = x.contiguous();
  if (wants_gradient({x, gain, bias})) return NormFunction::apply(rows, gain, some_or_none(bias), eps);
  return norm_forward({rows, {}, gain, bias, {}, eps}).out;
}

bool fits_add_norm(const NormInputs& in) {
  return fits_norm(in.x, in.gain, in.bias) && fits_kernels({in.x, in.residual}) && in.residual.sizes() == in.x.sizes();
}

// (sum, out). The inputs must fit.
std::tuple<at::Tensor, at::Tensor> added_norm(NormInputs in) {
  const bool differentiable = wants_gradient({in.x, in.residual, in.gain, in.bias});
  in.x = in.x.contiguous(), in.residual = in.residual.contiguous();
  if (differentiable) {
    variable_list result = AddNormFunction::apply(in.x, in.residual, in.gain, some_or_none(in.bias), in.dropout.rate,
                                                  in.dropout.seed, in.eps);
    return {result[0], result[1]};
  }
  const Normed result = norm_forward(in);
  return {result.sum, result.out};
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const DropoutOptions& options) {
  const Recorded recorded("fovea::dropout");
  check_rate(options.rate, "dropout: rate");
  if (options.rate == 0) return x;
  if (!fits_kernels({x})) return composite::dropout(x, options);
  return Dropout::apply(x.contiguous(), options.rate, options.seed);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps) {
  const Recorded recorded("fovea::layer_norm");
  const bool fits = bias.defined() && fits_norm(x, gain, bias);
  return fits ? normed_rows(x, gain, bias, eps) : composite::layer_norm(x, gain, bias, eps);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  const Recorded recorded("fovea::rms_norm");
  return fits_norm(x, gain, {}) ? normed_rows(x, gain, {}, eps) : composite::rms_norm(x, gain, eps);
}

std::tuple<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                                            const at::Tensor& bias, const DropoutOptions& options, double eps) {
  const Recorded recorded("fovea::add_norm");
  check_rate(options.rate, "add_norm: dropout");
  const NormInputs in{x, residual, gain, bias, options, eps};
  if (bias.defined() && fits_add_norm(in)) return added_norm(in);
  const at::Tensor sum = residual + dropout(x, options);
  return {sum, layer_norm(sum, gain, bias, eps)};
}

std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                                                const DropoutOptions& options, double eps) {
  const Recorded recorded("fovea::add_rms_norm");
  check_rate(options.rate, "add_rms_norm: dropout");
  const NormInputs in{x, residual, gain, {}, options, eps};
  if (fits_add_norm(in)) return added_norm(in);
  const at::Tensor sum = residual + dropout(x, options);
  return {sum, rms_norm(sum, gain, eps)};
}

}  // namespace fovea::ops
