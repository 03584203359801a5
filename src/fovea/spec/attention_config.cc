#include "fovea/spec/attention_config.h"

#include <algorithm>
#include <utility>

#include "fovea/spec/adaptive_span.h"

namespace fovea {

LayerSpec within_reach(LayerSpec spec, int64_t keys) {
  for (HeadGroup& group : spec) {
    if (const AdaptiveSpan* span = adaptive_span(group.spec)) {
      group.spec.pairs.leaf = AdaptiveSpan{std::clamp<int64_t>(keys - 1, 1, span->limit), span->ramp};
      continue;
    }
    Pairs reach{.op = Pairs::Op::kLeaf, .leaf = Local{keys}, .parts = {}};
    group.spec.pairs = {.op = Pairs::Op::kIntersection, .leaf = {}, .parts = {group.spec.pairs, std::move(reach)}};
    group.spec = canonical(group.spec);
  }
  return spec;
}

LayerSpec without_selection(LayerSpec spec) {
  for (HeadGroup& group : spec) group.spec.select.reset();
  return spec;
}

}  // namespace fovea
