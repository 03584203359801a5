#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>

namespace fovea::nn {

using NamedTensors = std::map<std::string, at::Tensor>;

// The bytes of a safetensors file: little endian, C order, widest types first and then by name, so that every tensor is
// aligned; `metadata` goes to __metadata__. Tensors of any device and strides.
std::string print_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata = {});

// The type as these files spell it ("F32"); throws an Error that names the tensor for one that they do not hold.
std::string safetensors_dtype(const std::string& name, const at::Tensor& tensor);

// Returns tensors on the CPU. Errors begin with `source`, see safetensors_header.h.
NamedTensors parse_safetensors(std::string_view file, std::string_view source);

}  // namespace fovea::nn
