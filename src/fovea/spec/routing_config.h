#pragma once
#include <string>

#include "fovea/base/fields.h"

namespace fovea {

// The options of routed(c,w) in a model, as a base of configurations. The defaults are those of the published code,
// except for the start.
struct RoutingConfig {
  std::string routing_start = "fixed";
  std::string routing_self = "keep";
  std::string routing_keys = "auto";
  std::string routing_scale = "none";
  double routing_decay = 0.999;
  double routing_commitment = 1e-4;

  static constexpr auto fields() {
    using C = RoutingConfig;
    return std::tuple(
        choice("routing-start", &C::routing_start,
               "running counts of routed(c,w) start at 1, or at 0 as published, which routes badly for 100 updates",
               "fixed|faithful"),
        choice("routing-self", &C::routing_self,
               "where queries are keys, a query's own key: kept, only if there is no other, or never",
               "keep|last|never"),
        choice("routing-keys", &C::routing_keys,
               "keys of routed(c,w): the queries (shared) or projections of their own, of which a decoder's query sees "
               "those up to itself; auto: shared in a decoder's self-attention, and with causal",
               "auto|shared|own"),
        choice("routing-scale", &C::routing_scale, "scores of routed(c,w) are multiplied by nothing, or by 1 / sqrt(D)",
               "none|sqrt"),
        number("routing-decay", &C::routing_decay, "decay of the centroids' moving averages, at each update", 0, 1),
        number("routing-commitment", &C::routing_commitment,
               "factor of the loss that pulls queries and keys to their centroids", 0, 1e6));
  }
};

}  // namespace fovea
