#pragma once
#include <string_view>

// The files of the folder page/, which the build puts into the program.
namespace fovea::serve {

extern const std::string_view kPage;

}  // namespace fovea::serve
