#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace fovea {

// Bytes as text of 64 characters, filled up with '=' (RFC 4648).
std::string base64(std::string_view bytes);

// The bytes of such a text; none if it is not one. It must be filled up, in one line.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace fovea
