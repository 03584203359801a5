#pragma once
#include <span>
#include <string_view>

#include "fovea/spec/config_yaml.h"

namespace fovea {

// The key under which a configuration file names the version of the program that wrote it.
inline constexpr std::string_view kVersionKey = "fovea-version";

// Like from_yaml, for a file that may name the version that wrote it. `version` is this program's. Throws an Error that
// names both versions if the file's is newer.
void from_versioned_yaml(std::string_view text, std::string_view source, std::string_view version,
                         std::span<const FieldView> fields, const ExplainKey& explain = nullptr);

}  // namespace fovea
