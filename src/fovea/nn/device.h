#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace fovea::nn {

// "cpu" or the number of a CUDA device, which is tried at once; throws an Error that says what is wrong with it.
at::Device parse_device(const std::string& devices);

}  // namespace fovea::nn
