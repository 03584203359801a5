#include "fovea/kernels/attention/cpu/candidates.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "fovea/kernels/attention/dropout.h"

namespace fovea::kernels {
namespace {

bool draws(const Pairs& pairs) {
  if (pairs.op == Pairs::Op::kLeaf) return std::holds_alternative<Random>(pairs.leaf);
  return std::any_of(pairs.parts.begin(), pairs.parts.end(), draws);
}

KeyRange narrow(Span span) { return {static_cast<int32_t>(span.begin), static_cast<int32_t>(span.end)}; }

Row row_of(const AttentionProblem& problem, const Sequence& sequence, int64_t i, uint64_t stream) {
  const bool cross = problem.kind == AttentionKind::kCross;
  return {.query = cross ? i : i + sequence.k_length - sequence.q_length,
          .keys = sequence.k_length,
          .causal = problem.kind == AttentionKind::kCausal,
          .stream = stream};
}

void add(RangeList& list, std::span<const KeyRange> ranges) {
  if (list.first.empty()) list.first.push_back(0);
  list.ranges.insert(list.ranges.end(), ranges.begin(), ranges.end());
  list.first.push_back(static_cast<int32_t>(list.ranges.size()));
}

void add_row(Candidates& table, const std::vector<Span>& row) {
  if (row.empty()) {
    table.hull.push_back({});
    add(table.gaps, {});
    return;
  }
  table.hull.push_back({narrow(row.front()).begin, narrow(row.back()).end});
  std::vector<KeyRange> gaps;
  for (size_t s = 1; s < row.size(); ++s) gaps.push_back(narrow({row[s - 1].end, row[s].begin}));
  add(table.gaps, gaps);
}

std::shared_ptr<const Candidates> lower(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream) {
  auto table = std::make_shared<Candidates>();
  const auto queries = static_cast<size_t>(sequence.q_length);
  table->hull.reserve(queries);
  const bool full = problem.spec.pairs.is_full();
  const auto& select = problem.spec.select;
  for (int64_t i = 0; i < sequence.q_length; ++i) {
    const Row row = row_of(problem, sequence, i, stream);
    if (full) {
      table->hull.push_back(narrow({0, std::max<int64_t>(row.limit(), 0)}));
    } else {
      add_row(*table, spans(problem.spec.pairs, row));
    }
    if (!select || !select->keep) continue;
    // Keys that are kept must be candidates, too.
    Pairs both{.op = Pairs::Op::kIntersection, .leaf = Full{}, .parts = {problem.spec.pairs, *select->keep}};
    std::vector<KeyRange> kept;
    for (const Span& span : spans(both, row)) kept.push_back(narrow(span));
    add(table->keep, kept);
  }
  if (table->gaps.ranges.empty()) table->gaps = {};
  return table;
}

}  // namespace

CandidateTables::CandidateTables(const AttentionProblem& problem, const RandomStream& random) {
  const auto& select = problem.spec.select;
  const bool by_head = draws(problem.spec.pairs) || (select && select->keep && draws(*select->keep));
  heads_ = by_head ? problem.num_heads : 1;
  std::map<std::tuple<int64_t, int64_t, uint64_t>, std::shared_ptr<const Candidates>> known;
  for (const Sequence& sequence : problem.sequences) {
    for (int64_t h = 0; h < heads_; ++h) {
      const uint64_t stream = by_head ? pattern_stream(random.seed, random.layer, random.first_head + h) : 0;
      auto& table = known[{sequence.q_length, sequence.k_length, stream}];
      if (!table) table = lower(problem, sequence, stream);
      tables_.push_back(table);
    }
  }
}

}  // namespace fovea::kernels
