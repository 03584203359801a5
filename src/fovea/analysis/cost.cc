#include "fovea/analysis/cost.h"

#include <algorithm>
#include <variant>

#include "fovea/analysis/chosen_keys.h"
#include "fovea/base/rng.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::analysis {
namespace {

struct PairCounts {
  double scored = 0, weighted = 0, rows = 0;
  double choice_products = 0;  // of queries or keys with centroids, or of queries with blocks
};

// Products of a query with the blocks among which it chooses: with their means, or with their least and greatest keys.
double block_products(const BlockChoice& choice, const Row& row) {
  if (choice.best == 1) return 0;
  const int64_t blocks = row.causal ? row.query / choice.block : (row.keys + choice.block - 1) / choice.block - 1;
  return (choice.score == BlockChoice::Score::kBounds ? 2 : 1) * static_cast<double>(std::max<int64_t>(blocks, 0));
}

PairCounts count_rows(const AttentionSpec& spec, const CostProblem& problem, uint64_t stream) {
  PairCounts counts;
  for (int64_t i = 0; i < problem.queries; ++i) {
    const bool cross = problem.kind == AttentionKind::kCross;
    const Row row{.query = cross ? i : i + problem.keys - problem.queries,
                  .keys = problem.keys,
                  .causal = problem.kind == AttentionKind::kCausal,
                  .stream = stream};
    counts.scored += static_cast<double>(candidates_of(spec, row));
    if (spec.blocks() != nullptr) counts.choice_products += block_products(*spec.blocks(), row);
    counts.weighted += static_cast<double>(chosen_count(spec, row));
  }
  counts.rows = static_cast<double>(problem.queries);
  return counts;
}

// Every cluster is a sequence of its members.
PairCounts count_clusters(const AttentionSpec& spec, const CostProblem& problem, uint64_t stream) {
  const Routed& route = *spec.route();
  const bool causal = route.is_causal() || problem.kind == AttentionKind::kCausal;
  const auto members = [&](int64_t tokens) {
    return route.is_causal() ? (tokens + route.clusters - 1) / route.clusters : std::min(route.window, tokens);
  };
  CostProblem within = problem;
  within.queries = members(problem.queries), within.keys = members(problem.keys);
  within.kind = causal ? AttentionKind::kCausal : AttentionKind::kSelf;
  AttentionSpec inner = spec;
  inner.source = route.is_causal() ? leaf(Local{route.window}) : Pairs{};
  PairCounts counts = count_rows(inner, within, stream);
  const auto clusters = static_cast<double>(route.clusters);
  counts.scored *= clusters, counts.weighted *= clusters, counts.rows *= clusters;
  if (route.has_centroids()) {
    const bool own_keys = problem.kind != AttentionKind::kCausal && !route.is_causal();
    counts.choice_products = clusters * static_cast<double>(problem.queries + (own_keys ? problem.keys : 0));
  }
  return counts;
}

// Operations per pair that may have a weight, and per query.
struct TransformCost {
  double by_pair = 0, by_row = 0;
};
TransformCost transform_cost(const Transform& transform) {
  return std::visit(
      [](const auto& t) -> TransformCost {
        using T = std::decay_t<decltype(t)>;
        if constexpr (std::is_same_v<T, Softmax>) return {3, -1};
        if constexpr (std::is_same_v<T, Sink>) return {3, 2};
        if constexpr (std::is_same_v<T, Sparsemax>) return {4, 0};
        if constexpr (std::is_same_v<T, Entmax>) return {6, 0};
        if constexpr (std::is_same_v<T, Sigmoid>) return {4, 0};
        return {1, 0};
      },
      transform);
}

}  // namespace

AttentionCost& AttentionCost::operator+=(const AttentionCost& other) {
  scored += other.scored, weighted += other.weighted;
  score_flops += other.score_flops, transform_flops += other.transform_flops, value_flops += other.value_flops;
  bytes += other.bytes;
  return *this;
}

AttentionCost cost_of(const LayerSpec& spec, const CostProblem& problem) {
  AttentionCost cost;
  int64_t heads = 0;
  const auto width = static_cast<double>(problem.head_dim);
  const auto number = static_cast<double>(problem.bytes_per_number);
  for (const HeadGroup& group : spec) {
    const bool draws = uses_random(group.spec);
    PairCounts counts;
    for (int64_t h = 0; h < group.num_heads; ++h, ++heads) {
      const uint64_t stream = hash_combine(hash_combine(1, 0), static_cast<uint64_t>(heads));
      if (h == 0 || draws)
        counts =
            group.spec.route() ? count_clusters(group.spec, problem, stream) : count_rows(group.spec, problem, stream);
      const TransformCost transform = transform_cost(group.spec.transform);
      AttentionCost head;
      head.scored = counts.scored, head.weighted = counts.weighted;
      head.score_flops = 2 * width * (counts.scored + counts.choice_products);
      head.transform_flops = transform.by_pair * counts.weighted + transform.by_row * counts.rows;
      if (group.spec.selects()) head.transform_flops += counts.scored;  // each score is compared with the threshold
      if (group.spec.cap) head.transform_flops += 6 * counts.scored;
      if (group.spec.scale)  // products with the layer's input are projections, which are not counted here
        head.transform_flops += (width + (scales_by_input(group.spec.transform) ? 8 : 2)) * counts.rows;
      head.value_flops = 2 * width * counts.weighted;
      head.bytes = 2 * width * number * static_cast<double>(problem.queries);
      constexpr double kListed = 8;  // a key and its weight
      if (group.spec.selects() || group.spec.route() || group.spec.blocks() || group.spec.indexed())
        head.bytes += kListed * counts.weighted;
      cost += head;
    }
  }
  if (spec.front().spec.indexed()) {
    const PairCounts all = count_rows({}, problem, 0);
    cost.score_flops += 2 * static_cast<double>(problem.index_width) * all.scored;
  }
  const int64_t key_heads = problem.key_heads == 0 ? heads : problem.key_heads;
  cost.bytes += 2 * width * number * static_cast<double>(problem.keys * key_heads);
  const NormParts norm = parts_of(spec.front().spec.norm);
  if (norm.gain) {
    const double numbers = static_cast<double>(problem.queries) * static_cast<double>(heads) * width;
    cost.transform_flops += (norm.gate ? 10 : 4) * numbers + static_cast<double>(problem.queries);
  }
  if (spec.front().spec.gate) {  // its product is one of the projections, which are not counted here
    cost.transform_flops += 6 * static_cast<double>(problem.queries) * static_cast<double>(heads) * width;
  }
  return cost;
}

}  // namespace fovea::analysis
