#pragma once
#include <string>

#include "fovea/text/added_tokens.h"
#include "fovea/text/json_values.h"

namespace fovea::text {

// One object of a list of added tokens, whose number is `id`. Fields that are missing are false.
AddedToken added_token_of(const Json& object, int64_t id, const std::string& place);

// The numbers that a token may have.
inline constexpr JsonRange kTokenNumbers = {0, (int64_t{1} << 24) - 1};

}  // namespace fovea::text
