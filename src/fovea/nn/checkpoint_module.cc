#include "fovea/nn/checkpoint_module.h"

#include <torch/nn/module.h>

#include <set>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::nn {

NamedTensors parameters_of(const torch::nn::Module& module) {
  NamedTensors parameters;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) parameters[item.key()] = item.value();
  }
  return parameters;
}

NamedTensors buffers_of(const torch::nn::Module& module) {
  NamedTensors buffers;
  for (const auto& item : module.named_buffers()) buffers[item.key()] = item.value();
  return buffers;
}

const at::Tensor& tensor_of(const NamedTensors& tensors, const std::string& name, at::IntArrayRef shape,
                            const std::string& origin) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Error(cat(origin, ": tensor '", name, "' is missing"));
  if (found->second.sizes() != shape)
    throw Error(
        cat(origin, ": tensor '", name, "' has the shape ", found->second.sizes(), ", the model needs ", shape));
  return found->second;
}

void load_parameters(torch::nn::Module& module, const NamedTensors& tensors, const std::string& origin) {
  const torch::NoGradGuard no_grad;
  NamedTensors own = parameters_of(module);
  own.merge(buffers_of(module));
  for (const auto& [name, tensor] : tensors) {
    if (!own.contains(name)) throw Error(cat(origin, ": tensor '", name, "' does not belong to this model"));
  }
  for (const auto& [name, value] : own) tensor_of(tensors, name, value.sizes(), origin);
  for (auto& [name, value] : own)
    value.set_data(tensors.at(name).detach().to(value.device(), value.scalar_type()).contiguous());
}

void move_module(torch::nn::Module& module, const at::Device& device, at::ScalarType type,
                 const ParameterRules& rules) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters_of(module)) {
    const auto rule = rules.find(name);
    const bool keeps_type = rule != rules.end() && rule->second.float32;
    parameter.set_data(parameter.to(device, keeps_type ? parameter.scalar_type() : type));
  }
  for (at::Tensor& buffer : module.buffers()) buffer.set_data(buffer.to(device));
}

}  // namespace fovea::nn
