#pragma once
#include "fovea/base/log.h"

namespace fovea::decode {

// Warns if the decoder's routed heads choose the members of their clusters in the whole text: a full pass then knows
// more than generation does. `config` is a family's configuration.
template <class Config>
void warn_of_whole_segments(const Config& config) {
  if (!routes_whole_segments(config)) return;
  log::warn(
      "routed(c,w) chooses the members of a cluster in the whole segment, so probabilities are optimistic: later units "
      "take part in the choice; routed(c,w,causal) does without them");
}

}  // namespace fovea::decode
