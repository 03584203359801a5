#pragma once
#include <string_view>

namespace fovea::text {

// Whether the name is a language of ISO 639, perhaps with a script, a country or region, and a variant: "de", "pt_BR",
// "zh-TW", "zh_Hans_CN", "es_419", "sr@latin".
bool is_language_code(std::string_view name);
// Whether the name is such a language with letters of any case, like the tags in translation memories: "zh-hans",
// "PT-br".
bool is_language_tag(std::string_view name);
// Whether the name has a script, a country or a region behind its language.
bool has_place_or_script(std::string_view name);

}  // namespace fovea::text
