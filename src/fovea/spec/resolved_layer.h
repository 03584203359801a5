#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {

// A layer's text, resolved into the arguments that each head group passes to the operator.
struct AttentionLayer {
  struct Group {
    int64_t num_heads;
    std::string spec;  // canonical, without the norm
    bool reads_alpha;
    std::optional<AttentionSpec> routed;  // where it has a route: the same
    int64_t span = 0;                     // the limit of an adaptive span, 0 without one
  };
  std::vector<Group> groups;
  Norm norm;
  AttentionParameters reads;
  bool positional = false;
};

// Returns the layer of a text for `num_heads` heads; kept for later calls. Throws an Error if the text does not parse
// or fit, or needs clauses.
std::shared_ptr<const AttentionLayer> resolved_layer(const std::string& text, int64_t num_heads);

}  // namespace fovea
