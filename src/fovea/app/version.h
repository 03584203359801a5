#pragma once

namespace fovea::app {

inline constexpr const char* kVersion = FOVEA_VERSION;

}  // namespace fovea::app
