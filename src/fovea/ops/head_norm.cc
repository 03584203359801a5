#include "fovea/ops/head_norm.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/kernels/layer/head_norm.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

// A float for each row of z, which backward reads.
struct Statistics {
  at::Tensor centre, rstd;
};

template <class T>
kernels::HeadNorm<T> job_of(const HeadNormInputs& in, const Statistics& rows) {
  kernels::HeadNorm<T> job{.z = elements<T>(in.z),
                           .gain = elements<T>(in.gain),
                           .gate = elements<T>(tensor_or_none(in.gate)),
                           .bias = elements<T>(tensor_or_none(in.bias)),
                           .centre = elements<float>(rows.centre),
                           .rstd = elements<float>(rows.rstd)};
  job.width = in.gain.numel(), job.rows = job.width == 0 ? 0 : in.z.numel() / job.width;
  job.around = in.centred ? kernels::Centre::kMean : kernels::Centre::kZero;
  return job;
}

HeadNormInputs contiguous(const HeadNormInputs& in) {
  const auto optional = [](const OptionalTensor& x) { return x ? OptionalTensor(x->contiguous()) : x; };
  return {in.z.contiguous(), in.gain.contiguous(), optional(in.gate), optional(in.bias), in.centred};
}

struct NormedHeads {
  at::Tensor y;
  Statistics rows;
};
NormedHeads forward_of(const HeadNormInputs& given, double eps) {
  const HeadNormInputs in = contiguous(given);
  const auto statistics = [&] {
    return at::empty(in.z.sizes().slice(0, in.z.dim() - 1), in.z.options().dtype(at::kFloat));
  };
  NormedHeads out{at::empty_like(in.z), {statistics(), statistics()}};
  with_element(in.z, [&]<class T>(T) {
    kernels::HeadNorm<T> job = job_of<T>(in, out.rows);
    job.eps = static_cast<float>(eps);
    kernels::head_norm(job, elements<T>(out.y), torch_executor());
  });
  return out;
}

// Gradients of z, gain, gate and bias; undefined where the norm does not have them.
HeadNormInputs backward_of(const at::Tensor& grad_y, const HeadNormInputs& given, const Statistics& rows) {
  const HeadNormInputs in = contiguous(given);
  const at::Tensor grad = grad_y.contiguous();
  const auto like = [](const OptionalTensor& x) { return x ? OptionalTensor(at::empty_like(*x)) : x; };
  const HeadNormInputs out{at::empty_like(in.z), at::empty_like(in.gain), like(in.gate), like(in.bias)};
  with_element(in.z, [&]<class T>(T) {
    const kernels::HeadNormGrads<T> grads{.grad_y = elements<T>(grad),
                                          .grad_z = elements<T>(out.z),
                                          .grad_gain = elements<T>(out.gain),
                                          .grad_gate = elements<T>(tensor_or_none(out.gate)),
                                          .grad_bias = elements<T>(tensor_or_none(out.bias))};
    kernels::head_norm_backward(job_of<T>(in, rows), grads, torch_executor());
  });
  return out;
}

class HeadNormFunction : public torch::autograd::Function<HeadNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z, const at::Tensor& gain,
                            const OptionalTensor& gate, const OptionalTensor& bias, bool centred, double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const NormedHeads out = forward_of({z, gain, gate, bias, centred}, eps);
    context->save_for_backward({z, gain, tensor_or_none(gate), tensor_or_none(bias), out.rows.centre, out.rows.rstd});
    context->saved_data["centred"] = centred;
    context->set_materialize_grads(false);
    return out.y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivatives("attention");
    variable_list result(6);
    if (!grads[0].defined()) return result;
    const variable_list s = context->get_saved_variables();
    const HeadNormInputs in{s[0], s[1], some_or_none(s[2]), some_or_none(s[3]),
                            context->saved_data.at("centred").toBool()};
    const HeadNormInputs grad = backward_of(grads[0], in, {s[4], s[5]});
    result[0] = grad.z, result[1] = grad.gain;
    result[2] = tensor_or_none(grad.gate), result[3] = tensor_or_none(grad.bias);
    return result;
  }
};

}  // namespace

bool fits_head_norm(const HeadNormInputs& in) {
  return fits_kernels({in.z, in.gain, tensor_or_none(in.gate), tensor_or_none(in.bias)});
}

at::Tensor head_norm(const HeadNormInputs& in, double eps) {
  const Recorded recorded("fovea::head_norm");
  const variable_list inputs{in.z, in.gain, tensor_or_none(in.gate), tensor_or_none(in.bias)};
  refuse_tangents(inputs, "attention");
  if (wants_gradient(inputs)) return HeadNormFunction::apply(in.z, in.gain, in.gate, in.bias, in.centred, eps);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_of(in, eps).y;
}

}  // namespace fovea::ops
