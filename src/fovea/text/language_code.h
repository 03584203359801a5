#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// Whether the name is a language of ISO 639, perhaps with a script, a country or region, and a variant: "de", "pt_BR",
// "zh-TW", "zh_Hans_CN", "es_419", "sr@latin".
bool is_language_code(std::string_view name);
// Whether the name is such a language with letters of any case, like the tags in translation memories: "zh-hans",
// "PT-br".
bool is_language_tag(std::string_view name);
// Whether the name has a script, a country or a region behind its language.
bool has_place_or_script(std::string_view name);

// The codes that a user may mean by `name`: the one that is the same in any case, or without the underscores that
// M2M100's tokens have ("__en__" for en). If there is none, those of the language `name` with a script ("eng" for
// eng_Latn). No table of languages stands behind this: "en" is not eng_Latn, because "es" would be est_Latn, Estonian.
std::vector<std::string> matching_codes(std::span<const std::string> codes, std::string_view name);

}  // namespace fovea::text
