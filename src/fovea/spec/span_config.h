#pragma once
#include <string>

#include "fovea/base/fields.h"

namespace fovea {

// The options of span(limit,ramp) in a model, as a base of configurations. The defaults are those of the published
// small model, except for the beginning of a text.
struct SpanConfig {
  double span_start = 0;
  double span_loss = 2e-6;
  std::string span_cold_cache = "none";

  static constexpr auto fields() {
    using C = SpanConfig;
    return std::tuple(
        number("span-start", &C::span_start, "where the spans of span(limit,ramp) start, as a share of the limit", 0,
               1),
        number("span-loss", &C::span_loss,
               "factor of the loss that shortens spans: in each layer the mean of its heads' spans, in tokens", 0, 1e6),
        choice("span-cold-cache", &C::span_cold_cache,
               "keys that span(limit,ramp) sees before the text begins: none, or keys and values of zeros as published",
               "none|zeros"));
  }
};

}  // namespace fovea
