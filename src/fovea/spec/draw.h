#pragma once
#include <string>

#include "fovea/spec/attention_spec.h"

namespace fovea {

// Returns the canonical form, then one line per query of `length` tokens with its candidates: '#' a candidate, '.'
// none. Several head groups give one block each, under the group's own form. Random patterns are drawn as for one head.
std::string draw(const LayerSpec& spec, int64_t length, AttentionKind kind);

}  // namespace fovea
