#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

// Derivatives of an operator's gradients. Kernels give first derivatives; those of the second order, which are asked
// for with create_graph (gradient penalties, Hessian-vector products), come from the same function made of ATen's
// operators.
namespace fovea::ops {

// The call behind a gradient g = d <f(inputs), grad_out> / d inputs; f does without undefined inputs.
struct GradientCall {
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> f;  // differentiable, as wide as its inputs ask
  at::Tensor grad_out;
  std::vector<at::Tensor> inputs;
};

// d <g, cotangents> / d (grad_out, inputs...), undefined where g does not depend on one. `cotangents` are as many as
// the inputs; undefined ones are zeros. Where the graph is being recorded (create_graph) it may be differentiated
// again.
std::vector<at::Tensor> second_order(const GradientCall& call, const std::vector<at::Tensor>& cotangents);

}  // namespace fovea::ops
