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
    // The data decide which keys a query has, so that the group takes a call of its own.
    bool chooses_keys() const { return is_routed() || spec.blocks() != nullptr; }
  };
  std::string text;  // for messages
  std::vector<Group> groups;
  std::vector<Group> listed;  // the groups as calls with lists of pairs have them: all pairs in place of blocktopk
  Norm norm;
  AttentionParameters reads;
  bool positional = false;
};

using AttentionLayerPointer = std::shared_ptr<const AttentionLayer>;

// The layer of a mechanism for `num_heads` heads. Throws an Error if it does not fit them, needs clauses, has a gate,
// scales its queries, or lacks the bias of a sigmoid.
AttentionLayerPointer resolved_layer(const LayerSpec& spec, int64_t num_heads);
// That of a text; kept for later calls. Throws an Error if the text does not parse.
AttentionLayerPointer resolved_layer(const std::string& text, int64_t num_heads);

// The layer of one mechanism without a norm, for all heads.
AttentionLayerPointer layer_of(const AttentionSpec& spec, int64_t num_heads);

}  // namespace fovea
