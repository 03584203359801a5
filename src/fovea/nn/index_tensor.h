#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace fovea::nn {

// Tokens, offsets or row numbers as an int64 tensor on the CPU, copied.
at::Tensor index_tensor(std::span<const int64_t> values);

}  // namespace fovea::nn
