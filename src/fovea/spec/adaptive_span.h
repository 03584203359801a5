#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/spec/attention_spec.h"

// Adaptive span (Sukhbaatar, Grave, Bojanowski, Joulin 2019), "span(limit,ramp)": a head learns a number z in [0, 1].
// The key at distance t = 1, 2 ... limit before the query has the mask
//     m(t) = min(max((z limit - (t - 1)) / ramp + 1, 0), 1)
// and the weight m(t) exp(score), divided by the row's sum of these. With topk(k) the k greatest of m(t) exp(score) are
// kept, as in the published code (lancopku, adaptive_span.py: the mask acts before torch.topk): the logarithm of the
// mask is a term of the score by distance. A head reaches `reach` keys, those whose mask is above 0, and some more,
// because the limit is cut by multiples of 64. Keys behind the reach are not candidates.
namespace fovea {

// The number of keys before a query that a head with this z reaches, at most span.limit.
int64_t reach_of(const AdaptiveSpan& span, double z);

// The spans of a layer's heads; nothing for a head without one. `spec` has its heads resolved.
std::vector<std::optional<AdaptiveSpan>> spans_of_heads(const LayerSpec& spec);

// The span of a head with this z in tokens, without the keys of the ramp and with them; at most the limit.
double span_of(const AdaptiveSpan& span, double z);
double span_with_ramp(const AdaptiveSpan& span, double z);

// The greatest limit of a span in the layer, 0 without any.
int64_t longest_span(const LayerSpec& spec);

// Returns the layer with the limit of head h cut to reaches[h], if it has a span: neighbours of one reach make a group.
LayerSpec cut_spans(const LayerSpec& spec, const std::vector<int64_t>& reaches);

}  // namespace fovea
