#pragma once
#include <cstdint>
#include <string_view>

namespace fovea {

// Throws an Error that begins with `source` for more bytes than a configuration has. A program reads its configuration
// several times, and YAML takes a second per megabyte.
void require_config_size(uint64_t bytes, std::string_view source);

}  // namespace fovea
