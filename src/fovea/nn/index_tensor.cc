#include "fovea/nn/index_tensor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace fovea::nn {

at::Tensor index_tensor(std::span<const int64_t> values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

at::Tensor index_tensor(std::vector<int64_t>&& values) {
  auto owned = std::make_shared<std::vector<int64_t>>(std::move(values));
  return at::from_blob(
      owned->data(), {std::ssize(*owned)}, [owned](void* /*data*/) {}, at::TensorOptions(at::kLong));
}

}  // namespace fovea::nn
