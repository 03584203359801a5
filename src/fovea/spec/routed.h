#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "fovea/spec/attention_kind.h"
#include "fovea/spec/patterns.h"

// Routing attention (Roy, Saffar, Vaswani, Grangier 2021), "routed(c,w)": queries and keys are put into c clusters by
// online k-means, and attention runs within each cluster. A source of a spec (attention_spec.h); the stages after it
// act within a cluster, where a token's position is its rank among the members.
namespace fovea {

struct Routed {
  enum class Members : uint8_t {
    kBest,    // each cluster takes the w tokens nearest to its centroid, in the whole sequence
    kCausal,  // each query and key joins its nearest cluster; a query sees the last w keys there up to itself
    kRandom,  // as kBest, but each cluster takes w tokens at random
  };
  int64_t clusters = 1, window = 1;
  Members members = Members::kBest;

  static constexpr std::string_view kName = "routed", kExample = "routed(16,256)",
                                    kHelp =
                                        "online k-means: the `window` tokens nearest to each centroid; causal: "
                                        "the last of the query's cluster; random: any";
  static constexpr std::array kNames{kName};
  static constexpr auto fields() {
    return std::tuple(PatternField<Routed>{"clusters", &Routed::clusters, 1},
                      PatternField<Routed>{"window", &Routed::window, 1},
                      WordField<Routed, Members>{&Routed::members, "causal|random"});
  }
  bool is_causal() const { return members == Members::kCausal; }
  // The clusters' centroids are part of the model.
  bool has_centroids() const { return members != Members::kRandom; }
  bool operator==(const Routed&) const = default;
};

// Whether the keys are the queries, under --routing-keys `keys`: auto, shared or own.
inline bool shares_keys(const Routed& route, AttentionKind kind, std::string_view keys) {
  if (kind == AttentionKind::kCross) return false;
  return keys == "shared" || (keys == "auto" && (kind == AttentionKind::kCausal || route.is_causal()));
}

// Whether keys that are not the queries are limited to those up to their query: their ranks within a cluster say
// nothing about positions, so such a mechanism compares positions in the sequence.
inline bool limits_own_keys(const Routed& route, AttentionKind kind, std::string_view keys) {
  if (kind == AttentionKind::kCross || shares_keys(route, kind, keys)) return false;
  return kind == AttentionKind::kCausal || route.is_causal();
}

}  // namespace fovea
