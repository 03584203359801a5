#pragma once
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// Like did_you_mean(), for the unknown name of a field. If another system uses `name` for one of the `known` fields,
// suggests that one. `dashes` is the prefix of the names in `known`: "--" for flags, none for keys.
std::string did_you_mean_field(std::string_view name, std::span<const std::string> known, std::string_view dashes);

}  // namespace fovea
