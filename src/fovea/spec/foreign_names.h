#pragma once
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// Like did_you_mean(), for the unknown name of a field. If another system has `name`, returns which of the `known`
// fields does the same, or what to do instead; empty if this command has no such field. A name of another system is
// never taken for a misspelt one of ours, which would mean something else. `dashes` is the prefix of the names in
// `known`:
// "--" for flags, none for keys.
std::string did_you_mean_field(std::string_view name, std::span<const std::string> known, std::string_view dashes);

}  // namespace fovea
