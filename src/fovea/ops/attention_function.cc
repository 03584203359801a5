#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/forced.h"
#include "fovea/ops/attention_lists.h"
#include "fovea/ops/attention_operators.h"
#include "fovea/ops/kernel_tensors.h"

// The derivatives of fovea::attention_forward and fovea::attention_backward.
namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t kAlphaPlace = 3, kTermsPlace = 4, kLayoutPlace = kTermsPlace + kTerms.size(),
                 kOwnPlace = kLayoutPlace + kLayout.size();

// The inputs that have gradients: q, k, v, alpha and the terms, undefined if a call does not have them.
using Differentiable = std::array<at::Tensor, kLayoutPlace>;
Differentiable differentiable(const CoreTensors& x, const OperatorInputs& inputs) {
  Differentiable tensors{x.q, x.k, x.v, tensor_or_none(inputs.alpha)};
  const OptionalTensors& terms = inputs.lists.terms;
  for (size_t i = 0; i < terms.size(); ++i) tensors[kTermsPlace + i] = tensor_or_none(terms.get(i));
  return tensors;
}

// Saves the differentiable inputs, then the tensors of the layout, then a function's own tensors.
void save(AutogradContext* context, const CoreTensors& x, const OperatorInputs& inputs, const variable_list& own) {
  const auto& [alpha, lists, spec, kind, scale, dropout, dropout_seed] = inputs;
  variable_list tensors;
  tensors.reserve(kOwnPlace + own.size());
  for (at::Tensor& tensor : differentiable(x, inputs)) tensors.push_back(std::move(tensor));
  for (size_t i = 0; i < lists.layout.size(); ++i) tensors.push_back(tensor_or_none(lists.layout.get(i)));
  tensors.resize(kOwnPlace);
  tensors.insert(tensors.end(), own.begin(), own.end());
  context->save_for_backward(std::move(tensors));
  auto& data = context->saved_data;
  data["spec"] = std::string(spec), data["kind"] = std::string(kind), data["scale"] = scale, data["dropout"] = dropout;
  data["dropout_seed"] = dropout_seed;
  data["offsets"] = at::IntArrayRef(lists.offsets), data["stream"] = at::IntArrayRef(lists.stream);
}

// Reads what save() stored. The context owns the texts.
OperatorInputs saved_inputs(AutogradContext* context, const variable_list& saved) {
  const auto list = [&](size_t begin, size_t end) {
    OptionalTensors tensors;
    tensors.reserve(end - begin);
    for (size_t i = begin; i < end; ++i) tensors.push_back(some_or_none(saved[i]));
    return tensors;
  };
  const auto& data = context->saved_data;
  const OptionalTensors terms = list(kTermsPlace, kLayoutPlace), layout = list(kLayoutPlace, kOwnPlace);
  return {some_or_none(saved[kAlphaPlace]),
          CallLists(ListViews{terms, data.at("offsets").toIntVector(), layout, data.at("stream").toIntVector()}),
          data.at("spec").toStringView(),
          data.at("kind").toStringView(),
          data.at("scale").toDouble(),
          data.at("dropout").toDouble(),
          data.at("dropout_seed").toSymInt()};
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // The tensors are arguments because autograd tracks those; it does not track lists with undefined tensors. `left`
  // gets the outputs for attention_backward too, which have no derivatives.
  static variable_list forward(AutogradContext* context, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor&, const OptionalTensor&, const ForwardCall& call,
                               CoreOutput* left) {
    const auto& [x, inputs, phase] = call;
    const at::AutoDispatchBelowADInplaceOrView below;
    // Kernels leave something for backward, and they are the CPU's alone.
    *left = call_operator(x, inputs, x.q.device().is_cpu() ? Phase::kTraining : Phase::kInference);
    save(context, x, inputs, {left->out, left->stats, left->kept, left->sums});
    context->saved_data["kernel"] = std::string(kernels::forced_kernel());
    context->set_materialize_grads(false);
    return {left->out, left->sums};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list result(kLayoutPlace + 2);
    if (!grads[0].defined() && !grads[1].defined()) return result;
    const variable_list saved = context->get_saved_variables();
    check_kernel(context->saved_data.at("kernel").toStringRef());
    const at::Tensor* left = &saved[kOwnPlace];  // out, stats, kept, sums
    const at::Tensor grad_out = grads[0].defined() ? grads[0] : at::zeros_like(left[0]);
    WantedTerms wanted{};
    for (size_t i = 0; i < wanted.size(); ++i) {
      const at::Tensor& term = saved[kTermsPlace + i];
      wanted[i] = term.defined() && term.requires_grad();
    }
    const CoreGradients grad = call_operator({{grad_out, grads[1]},
                                              {saved[0], saved[1], saved[2]},
                                              {left[0], left[1], left[2], left[3]},
                                              saved_inputs(context, saved),
                                              wanted});
    result[0] = grad.q, result[1] = grad.k, result[2] = grad.v;
    if (saved[kAlphaPlace].defined()) result[kAlphaPlace] = grad.alpha;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) result[kTermsPlace + i] = grad.terms.*kTermTensors[i];
    }
    return result;
  }

 private:
  // Kernels do not read what others left.
  static void check_kernel(std::string_view in_forward) {
    const std::string_view now = kernels::forced_kernel();
    if (now == in_forward) return;
    throw Error(cat("attention: FOVEA_KERNEL was '", in_forward, "' in forward and is '", now,
                    "' in backward; change it between steps only"));
  }
};

}  // namespace

CoreOutput attention_forward_autograd(const ForwardCall& call) {
  const Differentiable all = differentiable(call.x, call.inputs);
  refuse_tangents(all, "attention");
  if (!wants_gradient(all)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_operator(call.x, call.inputs, call.phase);
  }
  CoreOutput left;
  const auto& [q, k, v, alpha, by_head, by_query, queries, rows] = all;
  const variable_list result =
      AttentionFunction::apply(q, k, v, some_or_none(alpha), some_or_none(by_head), some_or_none(by_query),
                               some_or_none(queries), some_or_none(rows), call, &left);
  return {result[0], left.stats, left.kept, result[1]};
}

CoreGradients attention_backward_autograd(const BackwardCall& call) {
  const auto& [grad_out, grad_sums] = call.cotangents;
  if (wants_gradient(differentiable(call.x, call.inputs)) || wants_gradient({grad_out, grad_sums}))
    refuse_second_derivatives("attention");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_operator(call);
}

}  // namespace fovea::ops
