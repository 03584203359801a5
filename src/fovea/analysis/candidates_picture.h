#pragma once
#include <cstdint>
#include <string>

#include "fovea/spec/attention_spec.h"

namespace fovea::analysis {

// Returns an SVG file with the candidates of each query of `length` tokens: a panel per head group, queries downwards,
// keys from left to right. A cell is filled if the query may attend to the key, white if the pattern leaves it out, and
// hatched if the key comes after the query in causal attention. A group of routed heads gets a sentence instead. Throws
// an Error if `kind` does not allow the spec.
std::string candidates_svg(const LayerSpec& spec, int64_t length, AttentionKind kind);

}  // namespace fovea::analysis
