#pragma once
#include "fovea/spec/attention_spec.h"

namespace fovea {

// Returns the mechanism for cross-attention, whose queries and keys belong to two texts: without patterns that compare
// positions, without clauses, and routed(c,w) for routed(c,w,causal). A spec that cross-attention takes stays as it is.
LayerSpec across_texts(LayerSpec spec);

}  // namespace fovea
