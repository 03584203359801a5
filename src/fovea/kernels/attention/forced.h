#pragma once
#include <string_view>

namespace fovea::kernels {

// The kernel that FOVEA_KERNEL names, or "".
std::string_view forced_kernel();

}  // namespace fovea::kernels
