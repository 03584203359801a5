#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/layer/cross_entropy.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Problem {
  at::Tensor hidden, weight, bias, targets;  // bias may be undefined
  double smoothing = 0, softcap = 0;
};

// Per token, and the gradients of the sum of losses where they are wanted.
struct Solution {
  at::Tensor nll, loss;                            // [T] float32
  at::Tensor best;                                 // [T] bool, undefined where not wanted
  at::Tensor grad_hidden, grad_weight, grad_bias;  // undefined where not wanted
};

enum class Results : uint8_t { kLosses, kWithGradients, kWithBest };

Solution solve(const Problem& problem, Results wanted) {
  Solution result;
  result.nll = at::empty({problem.hidden.size(0)}, problem.hidden.options().dtype(at::kFloat));
  result.loss = at::empty_like(result.nll);
  if (wanted == Results::kWithBest) result.best = at::empty_like(result.nll, at::kBool);
  if (wanted == Results::kWithGradients) {
    result.grad_hidden = at::empty_like(problem.hidden);
    result.grad_weight = at::empty_like(problem.weight);
    if (problem.bias.defined()) result.grad_bias = at::empty_like(problem.bias);
  }
  with_element(problem.hidden, [&]<class T>(T) {
    kernels::CrossEntropyJob<T> job{.hidden = elements<T>(problem.hidden),
                                    .weight = elements<T>(problem.weight),
                                    .bias = elements<T>(problem.bias),
                                    .targets = elements<int64_t>(problem.targets)};
    job.tokens = problem.hidden.size(0), job.width = problem.hidden.size(1), job.vocabulary = problem.weight.size(0);
    job.smoothing = static_cast<float>(problem.smoothing);
    job.softcap = problem.softcap;
    job.nll = elements<float>(result.nll), job.loss = elements<float>(result.loss);
    job.best = elements<bool>(result.best);
    job.grad_hidden = elements<T>(result.grad_hidden), job.grad_weight = elements<T>(result.grad_weight);
    job.grad_bias = elements<T>(result.grad_bias);
    kernels::cross_entropy(job, torch_executor());
  });
  return result;
}

// In double, in the tokens' order.
at::Tensor total(const at::Tensor& values) {
  const float* begin = elements<float>(values);
  return at::scalar_tensor(std::accumulate(begin, begin + values.numel(), 0.0), values.options());
}

// (loss, nll). The loss is a number, so its gradients are known in forward except for a factor.
struct Loss : torch::autograd::Function<Loss> {
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias, const at::Tensor& targets, double smoothing,
                               double softcap) {
    const Problem problem{hidden, weight, tensor_or_none(bias), targets, smoothing, softcap};
    const Solution solution = solve(problem, Results::kWithGradients);
    context->save_for_backward({solution.grad_hidden, solution.grad_weight, solution.grad_bias});
    variable_list result = {total(solution.loss), total(solution.nll)};
    context->mark_non_differentiable({result[1]});
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("cross_entropy");
    variable_list result = context->get_saved_variables();
    if (grads[0].item<double>() != 1) {
      for (at::Tensor& grad : result) {
        if (grad.defined()) grad = grad * grads[0].to(grad.scalar_type());
      }
    }
    result.resize(6);
    return result;
  }
};

bool fits(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets) {
  return fits_kernels({hidden, output.weight, tensor_or_none(output.bias)}) && hidden.dim() == 2 &&
         output.weight.dim() == 2 && targets.is_cpu() && targets.scalar_type() == at::kLong && targets.dim() == 1;
}

Problem checked(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets) {
  const at::Tensor &weight = output.weight, bias = tensor_or_none(output.bias);
  if (hidden.size(1) != weight.size(1) || hidden.size(0) != targets.size(0) ||
      (bias.defined() && bias.numel() != weight.size(0))) {
    throw Error(cat("cross_entropy: hidden [", hidden.size(0), ", ", hidden.size(1), "], weight [", weight.size(0),
                    ", ", weight.size(1), "], ", targets.size(0),
                    " targets: expected [T, M], [V, M], a bias of V and T targets"));
  }
  Problem problem{.hidden = hidden.contiguous(),
                  .weight = weight.contiguous(),
                  .bias = bias.defined() ? bias.contiguous() : bias,
                  .targets = targets.contiguous(),
                  .softcap = output.softcap};
  const int64_t* begin = elements<int64_t>(problem.targets);
  const int64_t* end = begin + targets.size(0);
  const int64_t* bad = std::find_if(begin, end, [&](int64_t id) { return id < 0 || id >= weight.size(0); });
  if (bad != end) {
    throw Error(cat("cross_entropy: target ", *bad, " of token ", bad - begin, " is not in the vocabulary of ",
                    weight.size(0)));
  }
  return problem;
}

}  // namespace

CrossEntropy cross_entropy(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets,
                           double label_smoothing) {
  const Recorded recorded("fovea::cross_entropy");
  if (!fits(hidden, output, targets)) return composite::cross_entropy(hidden, output, targets, label_smoothing);
  Problem problem = checked(hidden, output, targets);
  problem.smoothing = label_smoothing;
  if (wants_gradient({hidden, output.weight, tensor_or_none(output.bias)})) {
    variable_list result = Loss::apply(problem.hidden, problem.weight, some_or_none(problem.bias), problem.targets,
                                       label_smoothing, problem.softcap);
    return {.loss = result[0], .nll = result[1]};
  }
  const Solution solution = solve(problem, Results::kLosses);
  return {.loss = total(solution.loss), .nll = total(solution.nll)};
}

TokenScores token_scores(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets) {
  if (!fits(hidden, output, targets)) return composite::token_scores(hidden, output, targets);
  const Solution solution = solve(checked(hidden, output, targets), Results::kWithBest);
  return {.nll = solution.nll, .best = solution.best};
}

}  // namespace fovea::ops
