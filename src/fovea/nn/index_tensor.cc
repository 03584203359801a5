#include "fovea/nn/index_tensor.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace fovea::nn {

at::Tensor index_tensor(std::span<const int64_t> values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

}  // namespace fovea::nn
