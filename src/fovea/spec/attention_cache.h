#pragma once
#include <string_view>

#include "fovea/spec/attention_spec.h"

namespace fovea {

// Returns parse_attention(text), parsed at the first call and kept for later ones: every layer of every call brings its
// text again. Any thread may ask. Throws a SpecError if the text does not parse.
AttentionSpec parse_attention_once(std::string_view text);

}  // namespace fovea
