#include "fovea/kernels/attention/cpu/candidates.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/grouping.h"
#include "fovea/kernels/attention/dropout.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kFullGroup = 256;  // queries of a group that share all keys
constexpr size_t kListPadding = 16;  // a list may be read by whole vectors
constexpr int64_t kCacheBytes = int64_t{128} << 20;

// Distances at which the patterns repeat: queries of one residue class see the same keys.
void find_steps(const Pairs& pairs, std::vector<int64_t>& steps) {
  if (const auto* dilated = std::get_if<Dilated>(&pairs.leaf)) steps.push_back(dilated->r);
  if (const auto* strided = std::get_if<Strided>(&pairs.leaf)) steps.push_back(strided->s);
  for (const Pairs& part : pairs.parts) find_steps(part, steps);
}

// Full pairs: every query sees a prefix of the keys.
void lower_full(const AttentionProblem& problem, const Sequence& sequence, Candidates& table) {
  table.hull.reserve(static_cast<size_t>(sequence.q_length));
  for (int64_t i = 0; i < sequence.q_length; ++i) {
    const int64_t limit = std::max<int64_t>(row_of(problem, sequence, i, 0).limit(), 0);
    table.hull.push_back({0, static_cast<int32_t>(limit)});
    table.pairs += limit;
  }
  for (int64_t i = 0; i < sequence.q_length; i += kFullGroup) {
    const int64_t count = std::min(kFullGroup, sequence.q_length - i);
    table.groups.push_back({.first_query = static_cast<int32_t>(i),
                            .queries = static_cast<int32_t>(count),
                            .columns = table.hull[static_cast<size_t>(i + count - 1)].end,
                            .row = static_cast<int32_t>(i)});
  }
}

// Names the keys of the group's columns: a progression where they are one, else a list.
void name_columns(const KeyUnion& keys, RowGroup& group, std::vector<int32_t>& lists) {
  const std::vector<Span>& spans = keys.spans();
  group.columns = static_cast<int32_t>(keys.columns());
  if (spans.empty()) return;
  group.key_begin = static_cast<int32_t>(spans.front().begin);
  if (spans.size() == 1) return;
  const int64_t step = spans[1].begin - spans[0].begin;
  bool progression = true;
  for (size_t s = 0; s < spans.size(); ++s) {
    progression =
        progression && spans[s].end - spans[s].begin == 1 && (s == 0 || spans[s].begin - spans[s - 1].begin == step);
  }
  if (progression) {
    group.key_step = static_cast<int32_t>(step);
    return;
  }
  group.list_at = static_cast<int32_t>(lists.size());
  for (const Span& span : spans) {
    for (int64_t key = span.begin; key < span.end; ++key) lists.push_back(static_cast<int32_t>(key));
  }
}

// The spans of each query. The spans of all queries are held if they are few. Otherwise they are made each time they
// are asked for, as single keys take 16 bytes each.
class PatternRows {
 public:
  PatternRows(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream)
      : problem_(problem), sequence_(sequence), stream_(stream) {
    if (problem.spec.keep) {
      // A key that the selection's keep pattern holds back must be a candidate, too.
      kept_.emplace();
      kept_->op = Pairs::Op::kIntersection;
      kept_->parts = {problem.spec.pairs(), *problem.spec.keep};
    }
    int64_t total = 0;
    for (int64_t i = 0; i < count() && total <= kMostHeldSpans; ++i) {
      held_.push_back(spans(problem_.spec.pairs(), row(i)));
      total += static_cast<int64_t>(held_.back().size());
    }
    if (total > kMostHeldSpans) held_ = {};
  }
  const Pairs& pairs() const { return problem_.spec.pairs(); }
  int64_t count() const { return sequence_.q_length; }
  bool keeps() const { return kept_.has_value(); }
  std::vector<Span> of(int64_t query) const {
    return held_.empty() ? spans(pairs(), row(query)) : held_[static_cast<size_t>(query)];
  }
  std::vector<Span> kept(int64_t query) const { return spans(*kept_, row(query)); }

 private:
  static constexpr int64_t kMostHeldSpans = int64_t{1} << 21;
  Row row(int64_t query) const { return row_of(problem_, sequence_, query, stream_); }

  const AttentionProblem& problem_;
  const Sequence& sequence_;
  uint64_t stream_;
  std::optional<Pairs> kept_;
  std::vector<std::vector<Span>> held_;
};

void add_pattern_group(const PatternRows& rows, const RowGroup& group, Candidates& table) {
  GroupRows members;
  for (int64_t r = 0; r < group.queries; ++r) {
    const int64_t query = group.first_query + r * group.query_step;
    members.keys.push_back(rows.of(query));
    if (rows.keeps()) members.kept.push_back(rows.kept(query));
  }
  add_group(members, group, table);
}

// Groups of the queries of each residue class modulo `step`.
struct Grouping {
  int64_t step = 1;
  double cost = 0;
  std::vector<std::vector<int64_t>> sizes;  // of each class
};

Grouping group_by(const PatternRows& rows, int64_t step) {
  Grouping grouping{.step = step, .cost = 0, .sizes = {}};
  for (int64_t residue = 0; residue < std::min(step, rows.count()); ++residue) {
    const auto member = [&](int64_t i) { return rows.of(residue + i * step); };
    grouping.sizes.push_back(group_sizes({(rows.count() - residue + step - 1) / step, member}, grouping.cost));
  }
  return grouping;
}

void lower_pattern(const PatternRows& rows, Candidates& table) {
  std::vector<int64_t> steps;
  find_steps(rows.pairs(), steps);
  Grouping best = group_by(rows, 1);
  for (const int64_t step : steps) {
    if (step <= 1) continue;
    Grouping other = group_by(rows, step);
    if (other.cost < best.cost) best = std::move(other);
  }
  for (size_t residue = 0; residue < best.sizes.size(); ++residue) {
    auto first = static_cast<int64_t>(residue);
    for (const int64_t size : best.sizes[residue]) {
      add_pattern_group(rows,
                        {.first_query = static_cast<int32_t>(first),
                         .query_step = static_cast<int32_t>(best.step),
                         .queries = static_cast<int32_t>(size)},
                        table);
      first += size * best.step;
    }
  }
  if (table.gaps.ranges.empty()) table.gaps = {};
  table.lists.resize(table.lists.size() + kListPadding);
}

using TableKey = std::tuple<std::string, AttentionKind, int64_t, int64_t, uint64_t>;

// Tables of patterns, across calls. Beyond its bound any of them makes room, by chance: layers ask for theirs in turn,
// so that the oldest would be the next one asked for.
class TableCache {
 public:
  std::shared_ptr<const Candidates> find(const TableKey& key) {
    const std::lock_guard lock(mutex_);
    const auto at = tables_.find(key);
    return at == tables_.end() ? nullptr : at->second;
  }
  void add(const TableKey& key, std::shared_ptr<const Candidates> table) {
    const std::lock_guard lock(mutex_);
    const int64_t bytes = table->bytes();
    if (bytes > kCacheBytes || !tables_.emplace(key, std::move(table)).second) return;
    bytes_ += bytes;
    while (bytes_ > kCacheBytes) {
      auto victim = tables_.begin();
      std::advance(victim, hash_combine(draws_++, tables_.size()) % tables_.size());
      bytes_ -= victim->second->bytes();
      tables_.erase(victim);
    }
  }

 private:
  std::mutex mutex_;
  std::map<TableKey, std::shared_ptr<const Candidates>> tables_;
  int64_t bytes_ = 0;
  uint64_t draws_ = 0;
};

TableCache& cache() {
  static TableCache tables;
  return tables;
}

}  // namespace

int64_t Candidates::bytes() const {
  const size_t ranges = hull.size() + gaps.ranges.size() + keep.ranges.size();
  const size_t ints = lists.size() + gaps.first.size() + keep.first.size();
  return static_cast<int64_t>(ranges * sizeof(ColumnRange) + ints * sizeof(int32_t) + groups.size() * sizeof(RowGroup));
}

void add_group(const GroupRows& rows, RowGroup group, Candidates& table) {
  KeyUnion keys;
  for (const std::vector<Span>& row : rows.keys) keys.add(row);
  keys.number_columns();
  group.row = static_cast<int32_t>(table.hull.size());
  name_columns(keys, group, table.lists);
  for (size_t r = 0; r < rows.keys.size(); ++r) {
    const std::vector<ColumnRange> ranges = columns_of(rows.keys[r], keys);
    std::vector<ColumnRange> gaps;
    for (size_t i = 1; i < ranges.size(); ++i) gaps.push_back({ranges[i - 1].end, ranges[i].begin});
    table.gaps.add(gaps);
    table.hull.push_back(ranges.empty() ? ColumnRange{} : ColumnRange{ranges.front().begin, ranges.back().end});
    table.pairs += table.hull.back().end - table.hull.back().begin;
    if (!rows.kept.empty()) table.keep.add(columns_of(rows.kept[r], keys));
  }
  table.groups.push_back(group);
}

Candidates lower(const AttentionProblem& problem, const Sequence& sequence, uint64_t stream) {
  Candidates table;
  if (problem.spec.pairs().is_full() && !problem.spec.keep) {
    lower_full(problem, sequence, table);
  } else {
    lower_pattern(PatternRows(problem, sequence, stream), table);
  }
  if (table.groups.empty()) table.groups.push_back({});
  return table;
}

Span Candidates::keys_of(const RowGroup& group) const {
  const int64_t last = group.columns - 1;
  if (group.given) {
    const int64_t last_block = given[group.list_at + last / block];
    return {given[group.list_at] * block, last_block * block + last % block + 1};
  }
  const int32_t* keys = list(group);  // ascending
  if (keys != nullptr) return {keys[0], int64_t{keys[last]} + 1};
  return {group.key_begin, group.key_begin + last * group.key_step + 1};
}

CandidateTables::CandidateTables(const AttentionProblem& problem, const RandomStream& random, const GivenLists& given) {
  if (problem.given.any()) {
    lower_given(problem, random, given);
    return;
  }
  const bool by_head = uses_random(problem.spec);
  const std::optional<Pairs>& keep = problem.spec.keep;
  const bool simple = problem.spec.pairs().is_full() && !keep;
  heads_ = by_head ? problem.num_heads : 1;
  const std::string name = simple ? "" : cat(print(problem.spec.pairs()), "+", keep ? print(*keep) : "");
  std::map<TableKey, std::shared_ptr<const Candidates>> known;
  const Sequence* last = nullptr;
  for (const Sequence& sequence : problem.sequences) {
    if (last != nullptr && last->q_length == sequence.q_length && last->k_length == sequence.k_length) {
      for (int64_t h = 0; h < heads_; ++h) tables_.push_back(tables_[tables_.size() - static_cast<size_t>(heads_)]);
      continue;
    }
    last = &sequence;
    for (int64_t h = 0; h < heads_; ++h) {
      const uint64_t stream = by_head ? random.pattern(h) : 0;
      const TableKey key{name, problem.kind, sequence.q_length, sequence.k_length, stream};
      auto& table = known[key];
      if (!table && !simple) table = cache().find(key);
      if (!table) {
        table = std::make_shared<const Candidates>(lower(problem, sequence, stream));
        if (!simple) cache().add(key, table);
      }
      tables_.push_back(table);
    }
  }
}

}  // namespace fovea::kernels
