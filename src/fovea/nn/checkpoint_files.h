#pragma once
#include <map>
#include <string>
#include <string_view>

// The small YAML files of a checkpoint: maps from names to plain text.
namespace fovea::nn {

// Has the state of a checkpoint's training; averages are without.
inline constexpr const char* kProgressFile = "progress.yml";

std::string print_map(const std::map<std::string, std::string>& map);

// Errors begin with `source`. Entries whose value is not plain text are refused.
std::map<std::string, std::string> parse_map(std::string_view text, std::string_view source);

}  // namespace fovea::nn
