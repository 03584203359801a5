#include "fovea/ops/recycled.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/util/strides.h>

#include "fovea/base/workspace.h"

namespace fovea::ops {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 20;  // smaller ones the heap keeps itself

class WorkspaceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = take_workspace(bytes);
    return {data, data, &return_workspace, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &return_workspace; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

// Never destroyed: tensors may outlive static objects.
c10::Allocator* allocator() {
  static auto& one = *new WorkspaceAllocator;
  return &one;
}

bool is_large(int64_t elements, const at::TensorOptions& options) {
  return options.device().is_cpu() && elements * static_cast<int64_t>(options.dtype().itemsize()) >= kLeastBytes;
}

}  // namespace

at::Tensor recycled(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  if (!is_large(c10::multiply_integers(sizes), options)) return at::empty_strided(sizes, strides, options);
  constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
  return at::detail::empty_strided_generic(sizes, strides, allocator(), kCpu, options.dtype().toScalarType());
}

at::Tensor recycled(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return recycled(sizes, c10::contiguous_strides(sizes), options);
}

}  // namespace fovea::ops
