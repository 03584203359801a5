#include "fovea/spec/attention_config.h"

#include <algorithm>
#include <utility>

namespace fovea {

LayerSpec within_reach(LayerSpec spec, int64_t keys) {
  for (HeadGroup& group : spec) {
    if (const AdaptiveSpan* span = adaptive_span(group.spec)) {
      group.spec.source = leaf(AdaptiveSpan{std::clamp<int64_t>(keys - 1, 1, span->limit), span->ramp});
      continue;
    }
    if (auto* pairs = std::get_if<Pairs>(&group.spec.source))
      *pairs = {.op = Pairs::Op::kIntersection, .leaf = {}, .parts = {std::move(*pairs), leaf(Local{keys})}};
    group.spec = canonical(group.spec);
  }
  return spec;
}

LayerSpec without_selection(LayerSpec spec) {
  for (HeadGroup& group : spec) {
    group.spec.selection = All{};
    group.spec.keep.reset();
  }
  return spec;
}

}  // namespace fovea
