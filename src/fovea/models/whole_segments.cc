#include "fovea/models/whole_segments.h"

#include <atomic>

#include "fovea/base/log.h"

namespace fovea::models {

void warn_of_whole_segments(const ModelConfig& config) {
  static std::atomic<bool> has_warned = false;
  if (!routes_whole_segments(config) || has_warned.exchange(true)) return;
  log::warn(
      "routed(c,w) chooses the members of a cluster in the whole segment, so probabilities are optimistic: later units "
      "take part in the choice; routed(c,w,causal) does without them");
}

}  // namespace fovea::models
