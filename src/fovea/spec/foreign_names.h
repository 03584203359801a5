#pragma once
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// did_you_mean() for a name of a field that is not known; where other systems call so what one of `known` does, that
// one. `dashes` stand before names as `known` has them: "--" of flags, none of keys.
std::string did_you_mean_field(std::string_view name, std::span<const std::string> known, std::string_view dashes);

}  // namespace fovea
