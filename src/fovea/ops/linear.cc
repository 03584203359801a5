#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/kernels/layer/product.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x [T, M] weight [N, M]^T + bias [N]
at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool relu) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  with_element(x, [&]<class T>(T) {
    kernels::RowProduct<T> job{
        .a = elements<T>(x), .b = elements<T>(weight), .bias = elements<T>(bias), .out = elements<T>(out)};
    job.rows = x.size(0), job.depth = x.size(1), job.columns = weight.size(0);
    job.a_stride = x.stride(0), job.out_stride = out.stride(0);
    job.b_depth_stride = weight.stride(1), job.b_column_stride = weight.stride(0);
    job.relu = relu;
    kernels::multiply(job, torch_executor());
  });
  return out;
}

// grad [T, N] weight [N, M], where out is positive if it is given
at::Tensor grad_of_input(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& out) {
  at::Tensor result = at::empty({grad.size(0), weight.size(1)}, grad.options());
  with_element(grad, [&]<class T>(T) {
    kernels::RowProduct<T> job{
        .a = elements<T>(grad), .mask = elements<T>(out), .b = elements<T>(weight), .out = elements<T>(result)};
    job.rows = grad.size(0), job.depth = grad.size(1), job.columns = weight.size(1);
    job.a_stride = grad.stride(0), job.out_stride = result.stride(0);
    job.mask_stride = out.defined() ? out.stride(0) : 0;
    job.b_depth_stride = weight.stride(0), job.b_column_stride = weight.stride(1);
    kernels::multiply(job, torch_executor());
  });
  return result;
}

struct WeightGrads {
  at::Tensor weight, bias;
};

// grad [T, N]^T x [T, M], and the sum of grad over the tokens
WeightGrads grads_of_weight(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& out, bool wants_bias) {
  WeightGrads result{.weight = at::empty({grad.size(1), x.size(1)}, grad.options()), .bias = {}};
  if (wants_bias) result.bias = at::empty({grad.size(1)}, grad.options());
  with_element(grad, [&]<class T>(T) {
    kernels::TokenSum<T> job{.a = elements<T>(grad),
                             .mask = elements<T>(out),
                             .b = elements<T>(x),
                             .out = elements<T>(result.weight),
                             .row_sums = elements<T>(result.bias)};
    job.depth = grad.size(0), job.rows = grad.size(1), job.columns = x.size(1);
    job.a_stride = grad.stride(0), job.b_stride = x.stride(0), job.out_stride = result.weight.stride(0);
    job.mask_stride = out.defined() ? out.stride(0) : 0;
    kernels::multiply(job, torch_executor());
  });
  return result;
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, bool relu) {
    at::Tensor out = linear_forward(x, weight, tensor_or_none(bias), relu);
    context->saved_data["bias"] = bias.has_value();
    context->save_for_backward({x, weight, relu ? out : at::Tensor()});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("linear");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &out = saved[2];
    const at::Tensor grad = with_plain_rows(grads[0]);
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = grad_of_input(grad, weight, out);
    // Inputs that are not tensors do not have a number here: without a bias there is no third.
    const bool wants_bias = context->saved_data["bias"].toBool() && context->needs_input_grad(2);
    if (context->needs_input_grad(1) || wants_bias) {
      WeightGrads of = grads_of_weight(grad, x, out, wants_bias);
      result[1] = std::move(of.weight);
      result[2] = std::move(of.bias);
    }
    return result;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  Activation activation) {
  const Recorded recorded("fovea::linear");
  const at::Tensor offset = tensor_or_none(bias);
  const bool fits = fits_kernels({x, weight, offset}) && x.dim() == 2 && weight.dim() == 2 &&
                    x.size(1) == weight.size(1) && x.size(1) > 0 &&
                    (!offset.defined() || (offset.is_contiguous() && offset.numel() == weight.size(0)));
  if (!fits) return composite::linear(x, weight, bias, activation);
  const bool relu = activation == Activation::kRelu;
  if (!relu && activation != Activation::kNone) {
    return activated(linear(x, weight, bias, Activation::kNone), activation);
  }
  const at::Tensor rows = with_plain_rows(x), matrix = weight.contiguous();
  return wants_gradient({x, weight, offset}) ? Linear::apply(rows, matrix, some_or_none(offset), relu)
                                             : linear_forward(rows, matrix, offset, relu);
}

}  // namespace fovea::ops
