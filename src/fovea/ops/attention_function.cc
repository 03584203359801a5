#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <string>
#include <string_view>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/forced.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"

// The derivative of a layer's attention.
namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t kAlphaPlace = 3, kTermsPlace = 4, kInputs = kTermsPlace + kTermTensors.size();

// Calls visit(tensor) for every tensor of the call that backward reads, defined or not.
template <class Visit>
void for_each_tensor(LayerCall& call, const Visit& visit) {
  const auto optional = [&](std::optional<at::Tensor>& x) {
    at::Tensor tensor = tensor_or_none(x);
    visit(tensor);
    x = some_or_none(tensor);
  };
  optional(call.alpha);
  for (const auto member : kTermTensors) visit(call.offsets.*member);
  for (const auto& [name, member] : kSequenceVectors) optional(call.*member);
  optional(call.drawn_seed);
  visit(call.pairs.lists);
}

// The call without its tensors, which autograd keeps.
struct KeptCall : torch::CustomClassHolder {
  LayerCall call;
  std::string kernel;
};

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // The tensors are arguments because autograd tracks those.
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                               const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                               const std::optional<at::Tensor>&, const LayerCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const LayerOutput output = layer_forward({q, k, v}, call, Phase::kTraining);
    auto kept = c10::make_intrusive<KeptCall>();
    kept->call = call, kept->kernel = kernels::forced_kernel();
    variable_list tensors{q, k, v};
    for_each_tensor(kept->call, [&](at::Tensor& x) { tensors.push_back(std::exchange(x, {})); });
    for (const at::Tensor& x : {output.out, output.sums, output.saved.floats, output.saved.ints}) tensors.push_back(x);
    context->save_for_backward(std::move(tensors));
    context->saved_data["call"] = c10::IValue::make_capsule(std::move(kept));
    context->set_materialize_grads(false);
    return output.sums.defined() ? variable_list{output.out, output.sums} : variable_list{output.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivatives("attention");
    variable_list result(kInputs + 1);
    const at::Tensor grad_sums = grads.size() > 1 ? grads[1] : at::Tensor();
    if (!grads[0].defined() && !grad_sums.defined()) return result;
    const variable_list saved = context->get_saved_variables();
    const auto kept = context->saved_data.at("call").toCapsule();
    const auto& own = static_cast<const KeptCall&>(*kept);
    kernels::check_kernel(own.kernel);
    LayerCall call = own.call;
    auto next = saved.begin() + kAlphaPlace;
    for_each_tensor(call, [&](at::Tensor& x) { x = *next++; });
    const LayerOutput output{next[0], next[1], {next[2], next[3]}};
    WantedTerms wanted{};
    for (size_t i = 0; i < wanted.size(); ++i) {
      const at::Tensor& term = saved[kTermsPlace + i];
      wanted[i] = term.defined() && term.requires_grad();
    }
    const at::Tensor grad_out = grads[0].defined() ? grads[0] : at::zeros_like(output.out);
    const LayerGradients grad =
        layer_backward({grad_out, grad_sums}, {saved[0], saved[1], saved[2]}, output, call, wanted);
    result[0] = grad.q, result[1] = grad.k, result[2] = grad.v, result[kAlphaPlace] = grad.alpha;
    for (size_t i = 0; i < wanted.size(); ++i) result[kTermsPlace + i] = grad.terms.*kTermTensors[i];
    return result;
  }
};

}  // namespace

Attended attend(const CoreTensors& x, const LayerCall& call) {
  const Recorded recorded("fovea::attention");
  const TermTensors& terms = call.offsets;
  const variable_list inputs{x.q,           x.k,       x.v, tensor_or_none(call.alpha), terms.by_head, terms.by_query,
                             terms.queries, terms.rows};
  refuse_tangents(inputs, "attention");
  if (!wants_gradient(inputs)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    LayerOutput output = layer_forward(x, call, Phase::kInference);
    return {std::move(output.out), std::move(output.sums)};
  }
  const variable_list result = AttentionFunction::apply(x.q, x.k, x.v, some_or_none(inputs[kAlphaPlace]),
                                                        some_or_none(terms.by_head), some_or_none(terms.by_query),
                                                        some_or_none(terms.queries), some_or_none(terms.rows), call);
  return {result[0], result.size() > 1 ? result[1] : at::Tensor()};
}

}  // namespace fovea::ops
