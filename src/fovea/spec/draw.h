#pragma once
#include <string>

#include "fovea/spec/attention_spec.h"

namespace fovea {

// The canonical form, then the candidates of each query of `length` tokens, a line a query: '#' a candidate, '.' none.
// Several head groups give a block each, under the group's own form. What is drawn at random is the draw of one head.
std::string draw(const LayerSpec& spec, int64_t length, AttentionKind kind);

}  // namespace fovea
