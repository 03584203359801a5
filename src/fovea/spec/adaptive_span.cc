#include "fovea/spec/adaptive_span.h"

#include <algorithm>
#include <cmath>

namespace fovea {

int64_t reach_of(const AdaptiveSpan& span, double z) {
  constexpr int64_t kStep = 64;
  const double share = z > 0 ? std::min(z, 1.0) : 0;  // 0 for NaN too, which a damaged model may have
  const double length = std::ceil(share * static_cast<double>(span.limit));
  const int64_t used = std::min(static_cast<int64_t>(length) + span.ramp, span.limit);
  return span.limit - std::min(span.limit - 1, span.limit - used) / kStep * kStep;
}

double span_of(const AdaptiveSpan& span, double z) { return z * static_cast<double>(span.limit); }

double span_with_ramp(const AdaptiveSpan& span, double z) {
  return std::min(span_of(span, z) + static_cast<double>(span.ramp), static_cast<double>(span.limit));
}

std::vector<std::optional<AdaptiveSpan>> spans_of_heads(const LayerSpec& spec) {
  std::vector<std::optional<AdaptiveSpan>> spans;
  for (const HeadGroup& group : spec) {
    const AdaptiveSpan* span = adaptive_span(group.spec);
    spans.insert(spans.end(), static_cast<size_t>(group.num_heads),
                 span == nullptr ? std::nullopt : std::optional(*span));
  }
  return spans;
}

int64_t longest_span(const LayerSpec& spec) {
  int64_t longest = 0;
  for (const HeadGroup& group : spec) {
    if (const AdaptiveSpan* span = adaptive_span(group.spec)) longest = std::max(longest, span->limit);
  }
  return longest;
}

LayerSpec cut_spans(const LayerSpec& spec, const std::vector<int64_t>& reaches) {
  LayerSpec out;
  size_t head = 0;
  for (const HeadGroup& group : spec) {
    const AdaptiveSpan* span = adaptive_span(group.spec);
    if (span == nullptr) {
      out.push_back(group);
      head += static_cast<size_t>(group.num_heads);
      continue;
    }
    for (int64_t i = 0; i < group.num_heads; ++i, ++head) {
      HeadGroup one{1, group.spec};
      one.spec.source = leaf(AdaptiveSpan{std::min(span->limit, reaches.at(head)), span->ramp});
      if (!out.empty() && out.back().spec == one.spec) {
        ++out.back().num_heads;
      } else {
        out.push_back(one);
      }
    }
  }
  return out;
}

}  // namespace fovea
