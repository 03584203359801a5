#include "fovea/tasks/chosen_keys.h"

#include <algorithm>
#include <variant>
#include <vector>

namespace fovea::tasks {
namespace {

int64_t total_of(const std::vector<Span>& parts) {
  int64_t total = 0;
  for (const Span& span : parts) total += span.end - span.begin;
  return total;
}

int64_t candidates_of(const Pairs& pairs, const Row& row) {
  return pairs.is_full() ? row.limit() : total_of(spans(pairs, row));
}

// Of the keys that a spec with a selection chooses, the fewest there can be.
int64_t chosen_of(const AttentionSpec& spec, const Row& row) {
  const int64_t candidates = candidates_of(spec.pairs, row);
  if (!spec.select) return candidates;
  if (!spec.select->keep) return std::min(spec.select->k, candidates);
  const Pairs both{.op = Pairs::Op::kIntersection, .leaf = Full{}, .parts = {spec.pairs, *spec.select->keep}};
  const int64_t kept = candidates_of(both, row);
  return kept + std::min(spec.select->k, candidates - kept);
}

}  // namespace

int64_t lost_keys(const Row& row, std::span<const float> weights, const AttentionSpec& spec) {
  if (spec.route || !std::holds_alternative<Softmax>(spec.transform)) return 0;
  const auto nonzero =
      static_cast<int64_t>(std::count_if(weights.begin(), weights.end(), [](float weight) { return weight != 0; }));
  if (nonzero == static_cast<int64_t>(weights.size())) return 0;
  return std::max<int64_t>(0, chosen_of(spec, row) - nonzero);
}

}  // namespace fovea::tasks
