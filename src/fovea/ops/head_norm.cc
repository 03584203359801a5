#include "fovea/ops/head_norm.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "fovea/kernels/call/schemas.h"
#include "fovea/kernels/layer/head_norm.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

using HeadNormForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using HeadNormForwardFunction = HeadNormForwardResult(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                                      const OptionalTensor&, bool, double);
using HeadNormBackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using HeadNormBackwardFunction = HeadNormBackwardResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                        const OptionalTensor&, const OptionalTensor&, const at::Tensor&,
                                                        const at::Tensor&, bool, double);

const auto& head_norm_forward_operator() {
  static const auto kHandle =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::head_norm", "").typed<HeadNormForwardFunction>();
  return kHandle;
}
const auto& head_norm_backward_operator() {
  static const auto kHandle =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::head_norm_backward", "").typed<HeadNormBackwardFunction>();
  return kHandle;
}

// Uninitialised y, centre and rstd for the rows of z.
HeadNormForwardResult empty_results(const at::Tensor& z) {
  const auto statistics = [&] {
    return at::empty_symint(z.sym_sizes().slice(0, z.sym_sizes().size() - 1), z.options().dtype(at::kFloat));
  };
  return {at::empty_symint(z.sym_sizes(), z.options()), statistics(), statistics()};
}

// A parameter that is missing has a gradient of no elements.
HeadNormBackwardResult empty_gradients(const at::Tensor& z, const at::Tensor& gain, const OptionalTensor& gate,
                                       const OptionalTensor& bias) {
  const auto like = [&](const OptionalTensor& x) {
    return x ? at::empty_symint(x->sym_sizes(), x->options()) : at::empty({0}, z.options());
  };
  return {at::empty_symint(z.sym_sizes(), z.options()), like(gain), like(gate), like(bias)};
}

template <class T>
kernels::HeadNorm<T> job_of(const HeadNormInputs& in, const at::Tensor& centre, const at::Tensor& rstd) {
  kernels::HeadNorm<T> job{.z = elements<T>(in.z),
                           .gain = elements<T>(in.gain),
                           .gate = elements<T>(tensor_or_none(in.gate)),
                           .bias = elements<T>(tensor_or_none(in.bias)),
                           .centre = elements<float>(centre),
                           .rstd = elements<float>(rstd)};
  job.width = in.gain.numel(), job.rows = job.width == 0 ? 0 : in.z.numel() / job.width;
  job.around = in.centred ? kernels::Centre::kMean : kernels::Centre::kZero;
  return job;
}

void check_shapes(const at::Tensor& z, const at::Tensor& gain, const OptionalTensor& gate, const OptionalTensor& bias) {
  TORCH_CHECK(z.dim() > 0, "fovea::head_norm: z has no dimensions");
  for (const at::Tensor& parameter : {gain, tensor_or_none(gate), tensor_or_none(bias)}) {
    TORCH_CHECK(!parameter.defined() || (parameter.dim() == 1 && parameter.sym_size(0) == z.sym_size(-1)),
                "fovea::head_norm: gain, gate and bias are of shape [", z.sym_size(-1), "], z's last size; got ",
                parameter.sym_sizes());
  }
}

OptionalTensor contiguous(const OptionalTensor& x) { return x ? OptionalTensor(x->contiguous()) : x; }

// A float for each row of z.
bool is_statistic(const at::Tensor& x, const at::Tensor& z) {
  return x.is_cpu() && x.is_contiguous() && x.scalar_type() == at::kFloat &&
         x.sizes() == z.sizes().slice(0, z.dim() - 1);
}

HeadNormForwardResult head_norm_forward(const at::Tensor& z, const at::Tensor& gain, const OptionalTensor& gate,
                                        const OptionalTensor& bias, bool centred, double eps) {
  check_shapes(z, gain, gate, bias);
  const HeadNormInputs in{z.contiguous(), gain.contiguous(), contiguous(gate), contiguous(bias), centred};
  TORCH_CHECK(fits_head_norm(in), "fovea::head_norm: takes float32 or bfloat16 tensors of one type on the CPU");
  HeadNormForwardResult result = empty_results(z);
  const auto& [y, centre, rstd] = result;
  with_element(z, [&, &y = y, &centre = centre, &rstd = rstd]<class T>(T) {
    kernels::HeadNorm<T> job = job_of<T>(in, centre, rstd);
    job.eps = static_cast<float>(eps);
    kernels::head_norm(job, elements<T>(y), torch_executor());
  });
  return result;
}

HeadNormBackwardResult head_norm_backward(const at::Tensor& grad_y, const at::Tensor& z, const at::Tensor& gain,
                                          const OptionalTensor& gate, const OptionalTensor& bias,
                                          const at::Tensor& centre, const at::Tensor& rstd, bool centred, double) {
  check_shapes(z, gain, gate, bias);
  const HeadNormInputs in{z.contiguous(), gain.contiguous(), contiguous(gate), contiguous(bias), centred};
  const at::Tensor grad = grad_y.contiguous();
  TORCH_CHECK(fits_head_norm(in) && fits_kernels({z, grad}) && grad.sizes() == z.sizes() && is_statistic(centre, z) &&
                  is_statistic(rstd, z),
              "fovea::head_norm_backward: takes what head_norm took and gave, and a gradient like y");
  HeadNormBackwardResult result = empty_gradients(z, gain, gate, bias);
  const auto& [grad_z, grad_gain, grad_gate, grad_bias] = result;
  with_element(
      z, [&, &grad_z = grad_z, &grad_gain = grad_gain, &grad_gate = grad_gate, &grad_bias = grad_bias]<class T>(T) {
        kernels::HeadNormGrads<T> grads{
            .grad_y = elements<T>(grad), .grad_z = elements<T>(grad_z), .grad_gain = elements<T>(grad_gain)};
        grads.grad_gate = gate ? elements<T>(grad_gate) : nullptr;
        grads.grad_bias = bias ? elements<T>(grad_bias) : nullptr;
        kernels::head_norm_backward(job_of<T>(in, centre, rstd), grads, torch_executor());
      });
  return result;
}

HeadNormForwardResult head_norm_forward_meta(const at::Tensor& z, const at::Tensor& gain, const OptionalTensor& gate,
                                             const OptionalTensor& bias, bool, double) {
  check_shapes(z, gain, gate, bias);
  return empty_results(z);
}

HeadNormBackwardResult head_norm_backward_meta(const at::Tensor&, const at::Tensor& z, const at::Tensor& gain,
                                               const OptionalTensor& gate, const OptionalTensor& bias,
                                               const at::Tensor&, const at::Tensor&, bool, double) {
  check_shapes(z, gain, gate, bias);
  return empty_gradients(z, gain, gate, bias);
}

// The results of forward that backward needs besides y; they have no derivative of their own.
struct Statistics {
  at::Tensor centre, rstd;
};

class HeadNormFunction : public torch::autograd::Function<HeadNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z, const at::Tensor& gain,
                            const OptionalTensor& gate, const OptionalTensor& bias, bool centred, double eps,
                            Statistics* left) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [y, centre, rstd] = head_norm_forward_operator().call(z, gain, gate, bias, centred, eps);
    context->save_for_backward({z, gain, tensor_or_none(gate), tensor_or_none(bias), centre, rstd});
    context->saved_data["centred"] = centred, context->saved_data["eps"] = eps;
    *left = {centre, rstd};
    context->set_materialize_grads(false);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list result(7);
    if (!grads[0].defined()) return result;
    const variable_list s = context->get_saved_variables();
    const OptionalTensor gate = some_or_none(s[2]), bias = some_or_none(s[3]);
    auto [grad_z, grad_gain, grad_gate, grad_bias] = head_norm_backward_operator().call(
        grads[0], s[0], s[1], gate, bias, s[4], s[5], context->saved_data.at("centred").toBool(),
        context->saved_data.at("eps").toDouble());
    result[0] = grad_z, result[1] = grad_gain;
    if (gate) result[2] = grad_gate;
    if (bias) result[3] = grad_bias;
    return result;
  }
};

HeadNormForwardResult head_norm_forward_autograd(const at::Tensor& z, const at::Tensor& gain,
                                                 const OptionalTensor& gate, const OptionalTensor& bias, bool centred,
                                                 double eps) {
  refuse_tangents({z, gain, tensor_or_none(gate), tensor_or_none(bias)}, "attention");
  if (!wants_gradient({z, gain, tensor_or_none(gate), tensor_or_none(bias)})) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return head_norm_forward_operator().call(z, gain, gate, bias, centred, eps);
  }
  Statistics left;
  const at::Tensor y = HeadNormFunction::apply(z, gain, gate, bias, centred, eps, &left);
  return {y, left.centre, left.rstd};
}

HeadNormBackwardResult head_norm_backward_autograd(const at::Tensor& grad_y, const at::Tensor& z,
                                                   const at::Tensor& gain, const OptionalTensor& gate,
                                                   const OptionalTensor& bias, const at::Tensor& centre,
                                                   const at::Tensor& rstd, bool centred, double eps) {
  if (wants_gradient({grad_y, z, gain, tensor_or_none(gate), tensor_or_none(bias)}))
    refuse_second_derivatives("attention");
  const at::AutoDispatchBelowADInplaceOrView below;
  return head_norm_backward_operator().call(grad_y, z, gain, gate, bias, centre, rstd, centred, eps);
}

}  // namespace

bool fits_head_norm(const HeadNormInputs& in) {
  return fits_kernels({in.z, in.gain, tensor_or_none(in.gate), tensor_or_none(in.bias)});
}

at::Tensor call_head_norm(const HeadNormInputs& in, double eps) {
  return std::get<0>(head_norm_forward_operator().call(in.z, in.gain, in.gate, in.bias, in.centred, eps));
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(schemas::kHeadNorm, {at::Tag::pt2_compliant_tag});
  m.def(schemas::kHeadNormBackward, {at::Tag::pt2_compliant_tag});
  m.impl("head_norm", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(head_norm_forward)));
  m.impl("head_norm_backward", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(head_norm_backward)));
  m.impl("head_norm", torch::dispatch(c10::DispatchKey::Meta, TORCH_FN(head_norm_forward_meta)));
  m.impl("head_norm_backward", torch::dispatch(c10::DispatchKey::Meta, TORCH_FN(head_norm_backward_meta)));
  m.impl("head_norm", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(head_norm_forward_autograd)));
  m.impl("head_norm_backward", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(head_norm_backward_autograd)));
}

}  // namespace fovea::ops
