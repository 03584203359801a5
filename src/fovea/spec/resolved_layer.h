#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {

// A layer's mechanisms, as calls of attention read them.
struct AttentionLayer {
  struct Group {
    int64_t num_heads;
    AttentionSpec spec;  // canonical, without the norm
    bool reads_alpha;
    int64_t span = 0;  // the limit of an adaptive span, 0 without one
    bool is_routed() const { return spec.route() != nullptr; }
  };
  std::string text;  // as it was given
  std::vector<Group> groups;
  Norm norm;
  AttentionParameters reads;
  bool positional = false;
};

// Returns the layer of a text for `num_heads` heads; kept for later calls. Throws an Error if the text does not parse
// or fit, or needs clauses.
std::shared_ptr<const AttentionLayer> resolved_layer(const std::string& text, int64_t num_heads);

// The layer of one mechanism without a norm, for all heads.
std::shared_ptr<const AttentionLayer> layer_of(const AttentionSpec& spec, int64_t num_heads);

}  // namespace fovea
