#include "fovea/ops/step_composite.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "fovea/kernels/layer/dropout.h"
#include "fovea/ops/counter_hash.h"
#include "fovea/ops/head_norm.h"

namespace fovea::ops::composite {
namespace {

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double rate, int64_t seed) {
    context->saved_data["rate"] = rate;
    context->saved_data["seed"] = seed;
    return apply_mask(x, {.rate = rate, .seed = seed}).mul_(1 / (1 - rate));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const DropoutOptions options{.rate = context->saved_data["rate"].toDouble(),
                                 .seed = context->saved_data["seed"].toInt()};
    return {composite::dropout(grads[0], options), {}, {}};
  }
};

// In float32, in double where hidden is.
at::Tensor wide_logits(const at::Tensor& hidden, const OutputLayer& output) {
  at::Tensor logits = at::linear(hidden, output.weight, output.bias);
  if (logits.scalar_type() != at::kDouble) logits = logits.to(at::kFloat);
  return output.softcap > 0 ? at::tanh(logits / output.softcap) * output.softcap : logits;
}

// rows [T, V] at the targets, [T]
at::Tensor at_targets(const at::Tensor& rows, const at::Tensor& targets) {
  return rows.gather(-1, targets.to(rows.device()).unsqueeze(-1)).squeeze(-1);
}

at::Tensor target_nll(const at::Tensor& log_p, const at::Tensor& targets) { return -at_targets(log_p, targets); }

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  Activation activation) {
  return activate(at::linear(x, weight, bias), activation);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kNone:
      break;
  }
  return x;
}

at::Tensor apply_mask(const at::Tensor& x, const DropoutOptions& options) {
  const uint32_t threshold = kernels::dropout_threshold(static_cast<float>(options.rate));
  constexpr int64_t kBlock = int64_t{1} << 32;  // elements that share a key
  std::vector<at::Tensor> kept;
  for (int64_t first = 0; first < x.numel(); first += kBlock) {
    const int64_t count = std::min(kBlock, x.numel() - first);
    const at::Tensor index = at::arange(count, x.options().dtype(at::kLong).requires_grad(false));
    const at::Tensor key = at::full({1}, int64_t{kernels::element_dropout_key(options.seed, first)}, index.options());
    kept.push_back(hash32_of(key, index).ge(int64_t{threshold}));
  }
  if (kept.empty()) return x.clone();
  return x * (kept.size() == 1 ? kept[0] : at::cat(kept)).view(x.sizes());
}

at::Tensor dropout(const at::Tensor& x, const DropoutOptions& options) {
  return options.rate > 0 ? Dropout::apply(x, options.rate, options.seed) : x;
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps) {
  return at::layer_norm(x, {x.size(-1)}, gain, bias, eps);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  return composed_head_norm({.z = x, .gain = gain, .gate = {}, .bias = {}}, eps);
}

at::Tensor gated(const at::Tensor& x, Activation activation) {
  const int64_t width = x.size(1) / 2;
  return activate(x.narrow(1, 0, width), activation) * x.narrow(1, width, width);
}

at::Tensor embed(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& weight,
                 const std::optional<at::Tensor>& positions, double scale) {
  const at::Tensor index = ids.to(weight.device());
  at::Tensor sum = at::embedding(weight, index.clamp_min(0)) * scale;
  sum = sum.masked_fill(index.lt(0).unsqueeze(-1), 0);
  if (positions && positions->defined()) {
    sum = sum + at::embedding(*positions, position.to(weight.device())).to(sum.scalar_type());
  }
  return sum;
}

CrossEntropy cross_entropy(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets,
                           double label_smoothing) {
  const at::Tensor log_p = at::log_softmax(wide_logits(hidden, output), -1);
  const at::Tensor nll = target_nll(log_p, targets).sum();
  const at::Tensor loss = nll * (1 - label_smoothing) - log_p.mean(-1).sum() * label_smoothing;
  return {.loss = loss, .nll = nll.detach()};
}

TokenScores token_scores(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  const at::Tensor logits = wide_logits(hidden, output);
  const at::Tensor nll = target_nll(at::log_softmax(logits, -1), targets).to(at::kFloat);
  // amax passes NaN on, of which no comparison is true.
  return {.nll = nll, .best = at_targets(logits, targets).ge(logits.amax(-1)).logical_and(nll.isnan().logical_not())};
}

void adam_step(const AdamState& state, const at::Tensor& grads, const AdamOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor grad = grads.to(state.params.scalar_type()) * options.grad_scale;
  const auto step = static_cast<double>(options.step);
  state.mean.mul_(options.beta1).add_(grad, 1 - options.beta1);
  state.variance.mul_(options.beta2).addcmul_(grad, grad, 1 - options.beta2);
  const at::Tensor root = (state.variance / (1 - std::pow(options.beta2, step))).sqrt_().add_(options.eps);
  if (options.weight_decay != 0) state.params.mul_(1 - options.learn_rate * options.weight_decay);
  state.params.addcdiv_(state.mean, root, -options.learn_rate / (1 - std::pow(options.beta1, step)));
  if (state.copy.defined()) state.copy.copy_(state.params);
}

}  // namespace fovea::ops::composite
