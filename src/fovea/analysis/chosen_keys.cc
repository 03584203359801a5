#include "fovea/analysis/chosen_keys.h"

#include <algorithm>
#include <variant>

namespace fovea::analysis {

int64_t chosen_count(const AttentionSpec& spec, const Row& row) {
  const int64_t candidates = candidate_count(spec.pairs(), row);
  int64_t kept = 0;
  if (spec.keep) {
    const Pairs both{.op = Pairs::Op::kIntersection, .leaf = Full{}, .parts = {spec.pairs(), *spec.keep}};
    kept = candidate_count(both, row);
  }
  return kept + std::visit([&](const auto& s) { return s.most(candidates - kept); }, spec.selection);
}

int64_t lost_keys(const Row& row, std::span<const float> weights, const AttentionSpec& spec) {
  // The spec alone does not say which keys these mechanisms give the query.
  const bool is_open = spec.route() || spec.clauses() || adaptive_span(spec) ||
                       !std::visit([](const auto& s) { return s.kCountsKeys; }, spec.selection);
  const bool keeps_all =
      std::holds_alternative<Softmax>(spec.transform) || std::holds_alternative<Sink>(spec.transform);
  if (is_open || !keeps_all) return 0;
  const auto nonzero =
      static_cast<int64_t>(std::count_if(weights.begin(), weights.end(), [](float weight) { return weight != 0; }));
  if (nonzero == static_cast<int64_t>(weights.size())) return 0;
  return std::max<int64_t>(0, chosen_count(spec, row) - nonzero);
}

}  // namespace fovea::analysis
