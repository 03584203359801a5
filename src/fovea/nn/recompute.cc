#include "fovea/nn/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/nn/attention_observer.h"
#include "fovea/ops/layer_tensors.h"

namespace fovea::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldComputation : torch::CustomClassHolder {
  explicit HeldComputation(Recomputable function) : compute(std::move(function)) {}
  Recomputable compute;
};

// The inputs as leaves of a graph of their own.
variable_list cut_off(at::TensorList inputs) {
  variable_list leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_(x.requires_grad()));
  return leaves;
}

struct Recomputation : torch::autograd::Function<Recomputation> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<HeldComputation>& held,
                               at::TensorList inputs, at::TensorList parameters) {
    variable_list saved = inputs.vec();
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    context->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    context->set_materialize_grads(false);
    // The pass makes a graph, which ends with this scope: without it the operators may choose kernels of other bits.
    const at::AutoGradMode with_graph(true);
    variable_list outputs = held->compute(cut_off(inputs));
    for (at::Tensor& x : outputs) x = x.detach();
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    ops::refuse_second_derivatives("gradient checkpointing");
    const variable_list saved = context->get_saved_variables();
    const auto count = context->saved_data["inputs"].toInt();
    const auto held = c10::static_intrusive_pointer_cast<HeldComputation>(context->saved_data["held"].toCapsule());
    variable_list outputs, output_grads, wanted = cut_off(at::TensorList(saved).slice(0, static_cast<size_t>(count)));
    {
      const at::AutoGradMode with_graph(true);
      const AttentionObserver::Pause pause;
      const variable_list all = held->compute(wanted);
      for (size_t i = 0; i < all.size(); ++i) {
        if (!grads[i].defined()) continue;
        outputs.push_back(all[i]);
        output_grads.push_back(grads[i]);
      }
    }
    wanted.insert(wanted.end(), saved.begin() + count, saved.end());
    return gradients(outputs, output_grads, wanted);
  }

 private:
  // First for the held computation, which has none, then for each of `wanted`.
  static variable_list gradients(const variable_list& outputs, const variable_list& output_grads,
                                 const variable_list& wanted) {
    variable_list result(wanted.size() + 1), learned;
    for (const at::Tensor& x : wanted) {
      if (x.requires_grad()) learned.push_back(x);
    }
    if (outputs.empty() || learned.empty()) return result;
    const variable_list found = torch::autograd::grad(outputs, learned, output_grads, std::nullopt,
                                                      /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < wanted.size(); ++i) {
      if (wanted[i].requires_grad()) result[i + 1] = found[next++];
    }
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const Recomputable& compute, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters) {
  return Recomputation::apply(c10::make_intrusive<HeldComputation>(compute), at::TensorList(inputs),
                              at::TensorList(parameters));
}

}  // namespace fovea::nn
