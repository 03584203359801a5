#include "fovea/ops/second_order.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

namespace fovea::ops {
namespace {

// A variable of its own: q and k may be one tensor, whose derivative would be that of both.
at::Tensor variable_of(const at::Tensor& x) {
  if (!x.defined()) return x;
  return x.requires_grad() ? x.view_as(x) : x.detach().requires_grad_();
}

// Returns the defined tensors among `all`.
std::vector<at::Tensor> defined(const std::vector<at::Tensor>& all) {
  std::vector<at::Tensor> some;
  for (const at::Tensor& x : all) {
    if (x.defined()) some.push_back(x);
  }
  return some;
}

}  // namespace

std::vector<at::Tensor> second_order(const GradientCall& call, const std::vector<at::Tensor>& cotangents) {
  // Like in first derivatives: within a region of autocast, ATen's products would narrow the types.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const bool create_graph = at::GradMode::is_enabled();
  const at::AutoGradMode enabled(true);
  std::vector<at::Tensor> variables{variable_of(call.grad_out)}, wanted, along;
  for (const at::Tensor& x : call.inputs) variables.push_back(variable_of(x));
  std::vector<at::Tensor> inputs(variables.begin() + 1, variables.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (cotangents[i].defined() && inputs[i].defined()) wanted.push_back(inputs[i]), along.push_back(cotangents[i]);
  }
  std::vector<at::Tensor> results(variables.size());
  if (wanted.empty()) return results;

  const at::Tensor out = call.f(inputs);
  if (!out.requires_grad()) {  // constant, where no sequence of attention has a pair
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].defined()) results[i] = at::zeros_like(variables[i]);
    }
    return results;
  }
  const auto first = torch::autograd::grad({out}, wanted, {variables[0]}, /*retain_graph=*/true, /*create_graph=*/true,
                                           /*allow_unused=*/true);
  std::vector<at::Tensor> gradients, directions;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].defined() && first[i].requires_grad()) gradients.push_back(first[i]), directions.push_back(along[i]);
  }
  if (gradients.empty()) return results;
  const auto second = torch::autograd::grad(gradients, defined(variables), directions, /*retain_graph=*/create_graph,
                                            create_graph, /*allow_unused=*/true);
  for (size_t i = 0, next = 0; i < variables.size(); ++i) {
    if (variables[i].defined()) results[i] = second[next++];
  }
  return results;
}

}  // namespace fovea::ops
