#include <algorithm>
#include <optional>

#include "fovea/kernels/attention/cpu/candidates.h"

// Pairs that come with the call: each query is a group, its columns the keys that its list names.
namespace fovea::kernels {
namespace {

// Keys that a query's entries name: entry e is the keys [e * block, min(e * block + block, limit)).
struct ListedKeys {
  std::span<const int32_t> entries;
  int64_t block = 1, limit = 0;
  int64_t columns() const {
    if (entries.empty()) return 0;
    const int64_t last = entries.back() * block;
    return (std::ssize(entries) - 1) * block + std::min(block, limit - last);
  }
};

// The columns whose keys lie in the spans, ascending and disjoint as these are.
std::vector<ColumnRange> columns_within(const std::vector<Span>& spans, const ListedKeys& keys) {
  std::vector<ColumnRange> ranges;
  size_t next = 0;
  int64_t column = 0;
  for (const int32_t entry : keys.entries) {
    const int64_t begin = entry * keys.block, end = std::min(begin + keys.block, keys.limit);
    while (next < spans.size() && spans[next].end <= begin) ++next;
    for (size_t i = next; i < spans.size() && spans[i].begin < end; ++i) {
      const auto first = static_cast<int32_t>(column + std::max(begin, spans[i].begin) - begin);
      const auto last = static_cast<int32_t>(column + std::min(end, spans[i].end) - begin);
      if (!ranges.empty() && ranges.back().end == first) {
        ranges.back().end = last;
      } else {
        ranges.push_back({first, last});
      }
    }
    column += end - begin;
  }
  return ranges;
}

// The hull begins at the first column: a query alone is scored from there on.
void add_row(const std::vector<ColumnRange>& ranges, Candidates& table) {
  std::vector<ColumnRange> gaps;
  int32_t end = 0;
  for (const ColumnRange& range : ranges) {
    if (range.begin > end) gaps.push_back({end, range.begin});
    end = range.end;
  }
  table.gaps.add(gaps);
  table.hull.push_back({0, end});
  table.pairs += end;
}

}  // namespace

Candidates lower_lists(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream,
                       const QueryLists& given) {
  Candidates table;
  table.given = given.lists, table.block = problem.given.block;
  const Pairs& pairs = problem.spec.pairs;
  std::optional<Pairs> kept;
  if (const auto& select = problem.spec.select; select && select->keep) {
    kept.emplace();
    kept->op = Pairs::Op::kIntersection;
    kept->parts = {pairs, *select->keep};
  }
  for (int64_t i = 0; i < sequence.q_length; ++i) {
    const Row row = row_of(problem, sequence, i, stream);
    const int32_t* list = given.lists + i * given.stride;
    const int64_t entries = std::find(list, list + problem.given.count, -1) - list;
    const ListedKeys keys{{list, static_cast<size_t>(entries)}, table.block, row.limit()};
    const auto columns = static_cast<int32_t>(keys.columns());
    table.groups.push_back({.first_query = static_cast<int32_t>(i),
                            .queries = 1,
                            .columns = columns,
                            .list_at = i * given.stride,
                            .row = static_cast<int32_t>(i)});
    if (pairs.is_full()) {
      table.hull.push_back({0, columns});
      table.pairs += columns;
    } else {
      add_row(columns_within(spans(pairs, row), keys), table);
    }
    if (kept) table.keep.add(columns_within(spans(*kept, row), keys));
  }
  if (table.groups.empty()) table.groups.push_back({});
  return table;
}

void CandidateTables::lower_given(const AttentionProblem& problem, const RandomStream& random,
                                  const GivenLists& given) {
  const bool draws = uses_random(problem.spec);
  heads_ = draws || problem.given.by_key_head ? problem.num_heads : 1;
  for (const Sequence& sequence : problem.sequences) {
    for (int64_t h = 0; h < heads_; ++h) {
      const int64_t key_head = problem.given.by_key_head ? problem.key_head(h) : 0;
      if (h > 0 && !draws && key_head == problem.key_head(h - 1)) {
        tables_.push_back(tables_.back());
        continue;
      }
      const int32_t* lists = given.data + sequence.q_begin * given.token_stride + key_head * given.head_stride;
      tables_.push_back(std::make_shared<const Candidates>(
          lower_lists(problem, sequence, draws ? random.pattern(h) : 0, {lists, given.token_stride})));
    }
  }
}

}  // namespace fovea::kernels
