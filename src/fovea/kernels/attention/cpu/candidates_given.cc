#include <algorithm>
#include <optional>

#include "fovea/kernels/attention/cpu/candidates.h"
#include "fovea/kernels/attention/cpu/grouping.h"

// Pairs that come with the call. A query is a group of its own, whose columns are the keys that its list names; but
// queries whose keys lie in runs, as those of blocks do and those of lists that name nearly all keys, are grouped as
// patterns are: neighbours share most of their keys.
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

// Keys of a query on average in a run of them, from which on grouping may pay.
constexpr int64_t kLongRun = 8;

// The queries of one sequence.
class ListedRows {
 public:
  ListedRows(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream, const QueryLists& given)
      : problem_(problem), sequence_(sequence), stream_(stream), given_(given) {
    if (!problem.spec.keep) return;
    kept_.emplace();
    kept_->op = Pairs::Op::kIntersection;
    kept_->parts = {problem.spec.pairs(), *problem.spec.keep};
  }

  Row row(int64_t query) const { return row_of(problem_, sequence_, query, stream_); }
  ListedKeys listed(int64_t query) const {
    const int32_t* list = given_.lists + query * given_.stride;
    const int64_t entries = std::find(list, list + problem_.given.count, -1) - list;
    return {{list, static_cast<size_t>(entries)}, problem_.given.block, row(query).limit()};
  }
  bool has_long_runs(int64_t query) const {
    const ListedKeys keys = listed(query);
    int64_t runs = keys.entries.empty() ? 0 : 1;
    for (size_t e = 1; e < keys.entries.size(); ++e) runs += keys.entries[e] != keys.entries[e - 1] + 1 ? 1 : 0;
    return keys.columns() >= runs * kLongRun;
  }
  std::vector<Span> keys(int64_t query) const { return within(problem_.spec.pairs(), query); }

  // A query alone.
  void add_alone(int64_t query, Candidates& table) const {
    const ListedKeys keys = listed(query);
    table.groups.push_back({.first_query = static_cast<int32_t>(query),
                            .queries = 1,
                            .columns = static_cast<int32_t>(keys.columns()),
                            .list_at = query * given_.stride,
                            .row = static_cast<int32_t>(table.hull.size()),
                            .given = true});
    if (problem_.spec.pairs().is_full()) {
      add_row({{0, table.groups.back().columns}}, table);
    } else {
      add_row(columns_within(spans(problem_.spec.pairs(), row(query)), keys), table);
    }
    if (kept_) table.keep.add(columns_within(spans(*kept_, row(query)), keys));
  }
  void add_together(int64_t first, int64_t count, Candidates& table) const {
    GroupRows rows;
    for (int64_t query = first; query < first + count; ++query) {
      rows.keys.push_back(keys(query));
      if (kept_) rows.kept.push_back(within(*kept_, query));
    }
    add_group(rows, {.first_query = static_cast<int32_t>(first), .queries = static_cast<int32_t>(count)}, table);
  }

 private:
  // The listed keys that the pattern has.
  std::vector<Span> within(const Pairs& pairs, int64_t query) const {
    const ListedKeys keys = listed(query);
    std::vector<Span> listed_spans;
    for (const int32_t entry : keys.entries) {
      const int64_t begin = entry * keys.block, end = std::min(begin + keys.block, keys.limit);
      if (!listed_spans.empty() && listed_spans.back().end == begin) {
        listed_spans.back().end = end;
      } else {
        listed_spans.push_back({begin, end});
      }
    }
    if (pairs.is_full()) return listed_spans;
    std::vector<Span> both;
    const std::vector<Span> pattern = spans(pairs, row(query));
    for (size_t i = 0, j = 0; i < listed_spans.size() && j < pattern.size();) {
      const Span common = {std::max(listed_spans[i].begin, pattern[j].begin),
                           std::min(listed_spans[i].end, pattern[j].end)};
      if (common.begin < common.end) both.push_back(common);
      (listed_spans[i].end < pattern[j].end ? i : j) += 1;
    }
    return both;
  }

  const AttentionProblem& problem_;
  const Sequence& sequence_;
  uint64_t stream_;
  QueryLists given_;
  std::optional<Pairs> kept_;
};

}  // namespace

Candidates lower_lists(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream,
                       const QueryLists& given) {
  Candidates table;
  table.given = given.lists, table.block = problem.given.block;
  const ListedRows rows(problem, sequence, stream, given);
  for (int64_t query = 0; query < sequence.q_length;) {
    int64_t end = query;
    while (end < sequence.q_length && rows.has_long_runs(end)) ++end;
    if (end == query) {
      rows.add_alone(query++, table);
      continue;
    }
    double cost = 0;
    const auto member = [&](int64_t i) { return rows.keys(query + i); };
    for (const int64_t size : group_sizes({end - query, member}, cost)) {
      size > 1 ? rows.add_together(query, size, table) : rows.add_alone(query, table);
      query += size;
    }
  }
  if (table.groups.empty()) table.groups.push_back({});
  constexpr size_t kReadBehind = 16;  // a list may be read by whole vectors
  table.lists.resize(table.lists.size() + kReadBehind);
  return table;
}

void CandidateTables::lower_given(const AttentionProblem& problem, const RandomStream& random,
                                  const GivenLists& given) {
  const bool draws = uses_random(problem.spec);
  heads_ = draws || problem.given.by_head() ? problem.num_heads : 1;
  for (const Sequence& sequence : problem.sequences) {
    for (int64_t h = 0; h < heads_; ++h) {
      const int64_t list_head = problem.list_head(h);
      if (h > 0 && !draws && list_head == problem.list_head(h - 1)) {
        tables_.push_back(tables_.back());
        continue;
      }
      const int32_t* lists = given.data + sequence.q_begin * given.token_stride + list_head * given.head_stride;
      tables_.push_back(std::make_shared<const Candidates>(
          lower_lists(problem, sequence, draws ? random.pattern(h) : 0, {lists, given.token_stride})));
    }
  }
}

}  // namespace fovea::kernels
