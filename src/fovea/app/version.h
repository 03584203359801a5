#pragma once
#include <string>

namespace fovea::app {

inline constexpr const char* kVersion = FOVEA_VERSION;
std::string build_info();  // "(libtorch 2.13.0, AVX512, no CUDA device)"

}  // namespace fovea::app
