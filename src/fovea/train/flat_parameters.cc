#include "fovea/train/flat_parameters.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"

namespace fovea::train {
namespace {
// Every parameter starts on a cache line, so that vector loads of its view are aligned.
constexpr int64_t kAlignment = 16;
}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& module, const at::Device& device, at::ScalarType type) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : nn::parameters_of(module)) {
    slots_.push_back({name, parameter, size_});
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
  const nn::NamedTensors values = views(narrow() ? compute_ : weights_);
  const nn::NamedTensors gradients = views(narrow() ? compute_gradients_ : gradients_);
  for (Slot& slot : slots_) {
    slot.parameter.set_data(values.at(slot.name));
    slot.parameter.mutable_grad() = gradients.at(slot.name);
  }
}

at::Tensor FlatParameters::zeros() const { return at::zeros_like(weights_); }

void FlatParameters::clear_gradients() {
  gradients_.zero_();
  if (narrow()) compute_gradients_.zero_();
}

void FlatParameters::add_gradients() {
  if (!narrow()) return;
  gradients_.add_(compute_gradients_);
  compute_gradients_.zero_();
}

void FlatParameters::refresh() {
  if (narrow()) compute_.copy_(weights_);
}

nn::NamedTensors FlatParameters::views(const at::Tensor& flat) const {
  nn::NamedTensors views;
  for (const Slot& slot : slots_)
    views[slot.name] = flat.narrow(0, slot.start, slot.parameter.numel()).view(slot.parameter.sizes());
  return views;
}

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
