#include "fovea/analysis/chosen_keys.h"

#include <algorithm>
#include <variant>

namespace fovea::analysis {

int64_t candidate_count(const Pairs& pairs, const Row& row) {
  if (pairs.is_full()) return row.limit();
  int64_t total = 0;
  for (const Span& span : spans(pairs, row)) total += span.end - span.begin;
  return total;
}

int64_t chosen_count(const AttentionSpec& spec, const Row& row) {
  const int64_t candidates = candidate_count(spec.pairs(), row);
  if (!spec.select) return candidates;
  if (!spec.select->keep) return std::min(spec.select->k, candidates);
  const Pairs both{.op = Pairs::Op::kIntersection, .leaf = Full{}, .parts = {spec.pairs(), *spec.select->keep}};
  const int64_t kept = candidate_count(both, row);
  return kept + std::min(spec.select->k, candidates - kept);
}

int64_t lost_keys(const Row& row, std::span<const float> weights, const AttentionSpec& spec) {
  // The spec alone does not say which keys these mechanisms give the query.
  const bool is_open = spec.route() || spec.clauses() || adaptive_span(spec);
  if (is_open || !std::holds_alternative<Softmax>(spec.transform)) return 0;
  const auto nonzero =
      static_cast<int64_t>(std::count_if(weights.begin(), weights.end(), [](float weight) { return weight != 0; }));
  if (nonzero == static_cast<int64_t>(weights.size())) return 0;
  return std::max<int64_t>(0, chosen_count(spec, row) - nonzero);
}

}  // namespace fovea::analysis
