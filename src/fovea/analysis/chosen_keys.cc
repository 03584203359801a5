#include "fovea/analysis/chosen_keys.h"

#include <algorithm>
#include <variant>

namespace fovea::analysis {

int64_t candidates_of(const AttentionSpec& spec, const Row& row) {
  const BlockChoice* blocks = spec.blocks();
  const int64_t limit = candidate_count(spec.pairs(), row);
  if (const IndexedKeys* indexed = spec.indexed()) return std::min(indexed->count, limit);
  if (blocks == nullptr || limit == 0) return limit;
  const int64_t begin = row.query / blocks->block * blocks->block;
  const int64_t own = std::max<int64_t>(std::min(begin + blocks->block, limit) - begin, 0);
  const int64_t others = (limit - own + blocks->block - 1) / blocks->block;
  return blocks->best > others ? limit : own + (blocks->best - 1) * blocks->block;
}

int64_t chosen_count(const AttentionSpec& spec, const Row& row) {
  const int64_t candidates = candidates_of(spec, row);
  int64_t kept = 0;
  if (spec.keep) {
    const Pairs both{.op = Pairs::Op::kIntersection, .leaf = Full{}, .parts = {spec.pairs(), *spec.keep}};
    kept = std::min(candidate_count(both, row), candidates);
  }
  return kept + std::visit([&](const auto& s) { return s.most(candidates - kept); }, spec.selection);
}

int64_t lost_keys(const Row& row, std::span<const float> weights, const AttentionSpec& spec) {
  // The spec alone does not say which keys these mechanisms give the query.
  const bool is_open = spec.route() || spec.blocks() || spec.indexed() || spec.clauses() || adaptive_span(spec) ||
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
