#pragma once
#include <string>
#include <string_view>

namespace fovea {

// Bytes as text of 64 characters, filled up with '=' (RFC 4648).
std::string base64(std::string_view bytes);

}  // namespace fovea
