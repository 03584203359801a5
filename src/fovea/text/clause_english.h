#pragma once
#include <string_view>

namespace fovea::text {

// The English dictionary of clause_dictionary.h.
extern const std::string_view kEnglishClauses;

}  // namespace fovea::text
