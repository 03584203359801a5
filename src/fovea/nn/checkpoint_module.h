#pragma once
#include <string>

#include "fovea/nn/parameter_rules.h"
#include "fovea/nn/safetensors.h"

namespace torch::nn {
class Module;
}

namespace fovea::nn {

// A module's parameters by name, each once.
NamedTensors parameters_of(const torch::nn::Module& module);

// A module's buffers by name.
NamedTensors buffers_of(const torch::nn::Module& module);

// The tensor of that name; throws an Error that begins with `origin` if there is none or it has another shape.
const at::Tensor& tensor_of(const NamedTensors& tensors, const std::string& name, at::IntArrayRef shape,
                            const std::string& origin);

// Gives the tensors to the parameters and buffers, which share their memory unless type or device differ. Throws an
// Error that begins with `origin` and names the tensor that is missing, not known or of another shape; then nothing was
// changed, and a blank module (nn/init.h) took no memory.
void load_parameters(torch::nn::Module& module, const NamedTensors& tensors, const std::string& origin);

// Moves the module to the device, and its parameters to the type. As in training, buffers and parameters whose rule
// says float32 keep their type.
void move_module(torch::nn::Module& module, const at::Device& device, at::ScalarType type,
                 const ParameterRules& rules = {});

}  // namespace fovea::nn
