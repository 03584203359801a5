#include "fovea/train/flat_parameters.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <cmath>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"

namespace fovea::train {
namespace {
// Every parameter starts on a cache line, so that vector loads of its view are aligned.
constexpr int64_t kAlignment = 16;

std::optional<at::Scalar> limit_of(double value) {
  return std::abs(value) < kNoLimit ? std::optional<at::Scalar>(value) : std::nullopt;
}
}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& module, const at::Device& device, at::ScalarType type,
                               const nn::ParameterRules& rules) {
  const torch::NoGradGuard no_grad;
  const nn::NamedTensors parameters = nn::parameters_of(module);
  for (const auto& [name, rule] : rules) {
    if (!parameters.contains(name)) throw Error(cat("the task has a rule for '", name, "', which is no parameter"));
  }
  for (const auto& [name, parameter] : parameters) {
    const auto rule = rules.find(name);
    slots_.push_back({name, parameter, size_, rule == rules.end() ? nn::ParameterRule() : rule->second});
    count_ += parameter.numel();
    size_ += (parameter.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  weights_ = at::zeros({size_}, at::TensorOptions(device).dtype(at::kFloat));
  gradients_ = at::zeros_like(weights_);
  for (const auto& [name, view] : views(weights_)) view.copy_(module.named_parameters()[name]);
  for (at::Tensor& buffer : module.buffers()) buffer.set_data(buffer.to(device));
  if (type != at::kFloat) {
    compute_ = weights_.to(type);
    compute_gradients_ = at::zeros_like(compute_);
  }
  for (Slot& slot : slots_) {
    const bool is_narrow = narrow() && !slot.rule.float32;
    slot.parameter.set_data(part_of(is_narrow ? compute_ : weights_, slot));
    slot.parameter.mutable_grad() = part_of(is_narrow ? compute_gradients_ : gradients_, slot);
  }
}

at::Tensor FlatParameters::zeros() const { return at::zeros_like(weights_); }

void FlatParameters::clear_gradients() {
  gradients_.zero_();
  if (narrow()) compute_gradients_.zero_();
}

// In bfloat16, the gradients of parameters that stay float32 have summed up in gradients_ already, and their part of
// compute_gradients_ is 0.
void FlatParameters::add_gradients() {
  if (!narrow()) return;
  gradients_.add_(compute_gradients_);
  compute_gradients_.zero_();
}

void FlatParameters::scale_gradients(const std::vector<double>& factors) {
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] != 1) part_of(gradients_, slots_[i]).mul_(factors[i]);
  }
}

void FlatParameters::clamp() {
  for (const Slot& slot : slots_) {
    const std::optional<at::Scalar> low = limit_of(slot.rule.low), high = limit_of(slot.rule.high);
    if (!low && !high) continue;
    at::Tensor weights = part_of(weights_, slot);
    weights.clamp_(low, high);
    if (narrow()) part_of(compute_, slot).copy_(weights);
  }
}

void FlatParameters::refresh() {
  if (narrow()) compute_.copy_(weights_);
}

at::Tensor FlatParameters::part_of(const at::Tensor& flat, const Slot& slot) {
  return flat.narrow(0, slot.start, slot.parameter.numel()).view(slot.parameter.sizes());
}

nn::NamedTensors FlatParameters::views(const at::Tensor& flat) const {
  nn::NamedTensors views;
  for (const Slot& slot : slots_) views[slot.name] = part_of(flat, slot);
  return views;
}

nn::NamedTensors FlatParameters::copy_views() const { return narrow() ? views(compute_) : nn::NamedTensors(); }

void restore(const FlatParameters& parameters, const at::Tensor& flat, const nn::NamedTensors& tensors,
             const std::string& origin) {
  const torch::NoGradGuard no_grad;
  const nn::NamedTensors views = parameters.views(flat);
  for (const auto& [name, view] : views) view.copy_(nn::tensor_of(tensors, name, view.sizes(), origin));
  for (const auto& [name, tensor] : tensors) {
    if (!views.contains(name)) throw Error(cat(origin, ": tensor '", name, "' does not belong to this model"));
  }
}

}  // namespace fovea::train
