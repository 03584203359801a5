#pragma once
#include <vector>

#include "fovea/stable/arguments.h"

namespace fovea::stable {

// Return an uninitialised tensor on the CPU; `type` is one of aoti_torch_dtype_*(). Strides are in elements, without
// gaps; contiguous if none are given. A large tensor lies in a workspace (base/workspace.h), which is kept when the
// tensor dies, so that the next call finds its pages in place; torch before 2.11 cannot hold such memory, and takes its
// own.
Tensor empty(const std::vector<int64_t>& sizes, int32_t type);
Tensor empty(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int32_t type);

}  // namespace fovea::stable
