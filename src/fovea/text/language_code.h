#pragma once
#include <string_view>

namespace fovea::text {

// Whether the name is a language of ISO 639, perhaps with a country or a variant: "de", "pt_BR", "zh-TW", "sr@latin".
bool is_language_code(std::string_view name);
// Whether a country of two capitals ends the name.
bool has_country(std::string_view name);

}  // namespace fovea::text
