#pragma once
#include <ATen/core/Tensor.h>

// Uninitialised tensors for what operators return. Large ones on the CPU lie in workspaces (base/workspace.h), which
// are kept when a tensor dies: the next call finds its pages in place. From the heap they would be fresh ones as soon
// as the program frees as much as glibc gives back, and the kernel would fault in every page of every result.
namespace fovea::ops {

at::Tensor recycled(at::IntArrayRef sizes, const at::TensorOptions& options);
at::Tensor recycled(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

}  // namespace fovea::ops
