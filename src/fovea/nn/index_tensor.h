#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace fovea::nn {

// Tokens, offsets or row numbers as an int64 tensor on the CPU, copied.
at::Tensor index_tensor(std::span<const int64_t> values);
// Like index_tensor() above, without a copy: the tensor owns the vector.
at::Tensor index_tensor(std::vector<int64_t>&& values);

}  // namespace fovea::nn
