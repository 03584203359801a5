#include "fovea/ops/reference_blocks.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::Sequence;
using Spans = std::vector<Span>;  // ascending, with gaps between

constexpr int64_t kWorthABlock = int64_t{1} << 20;  // pairs that are computed together even if most are not candidates

int64_t size_of(const Spans& spans) {
  int64_t size = 0;
  for (const Span& s : spans) size += s.end - s.begin;
  return size;
}

void append(Spans& to, const Span& span) {
  if (!to.empty() && span.begin <= to.back().end) {
    to.back().end = std::max(to.back().end, span.end);
  } else {
    to.push_back(span);
  }
}

Spans joined(const Spans& a, const Spans& b) {
  Spans all;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool from_a = j == b.size() || (i < a.size() && a[i].begin <= b[j].begin);
    append(all, from_a ? a[i++] : b[j++]);
  }
  return all;
}

// The keys that are a block's columns: these ranges one after the other.
struct Columns {
  Spans ranges;
  int64_t count = 0;

  // The union of spans, or all from its first to its last key if that is less than twice as many.
  static Columns of(const Spans& seen) {
    if (seen.empty()) return {};
    const Span hull{seen.front().begin, seen.back().end};
    const int64_t size = size_of(seen);
    if (2 * size > hull.end - hull.begin) return {{hull}, hull.end - hull.begin};
    return {seen, size};
  }

  // The columns of spans of keys; other keys are left out.
  Spans places(const Spans& spans) const {
    Spans all;
    int64_t first = 0;
    for (const Span& range : ranges) {
      for (const Span& s : spans) {
        const Span both{std::max(s.begin, range.begin), std::min(s.end, range.end)};
        if (both.begin < both.end) append(all, {both.begin - range.begin + first, both.end - range.begin + first});
      }
      first += range.end - range.begin;
    }
    return all;
  }
};

// The spans of some rows of a group: for each member that differs, each head that differs and each query.
class RowSpans {
 public:
  RowSpans(const BlockCall& call, const ReferenceGroup& group, const Pairs& pairs, const HeadRun& run)
      : call_(call), group_(group), pairs_(pairs), run_(run) {
    const auto alike = [&](const Sequence& s) { return s.q_length == group.q.length && s.k_length == group.k.length; };
    members = std::ranges::all_of(group.members, alike) ? 1 : group.count();
    heads = uses_random(pairs) ? run.count : 1;
  }
  // All rows of query i, members outermost.
  std::vector<Spans> of(int64_t i) const {
    std::vector<Spans> rows;
    for (int64_t m = 0; m < members; ++m) {
      const Sequence& s = group_.members[static_cast<size_t>(m)];
      for (int64_t h = 0; h < heads; ++h) {
        const bool is_padding = i >= s.q_length;
        const uint64_t stream = call_.random.pattern(run_.first + h);
        rows.push_back(is_padding ? Spans() : spans(pairs_, row_of(call_.problem, s, i, stream)));
      }
    }
    return rows;
  }
  int64_t members = 1, heads = 1;

 private:
  const BlockCall& call_;
  const ReferenceGroup& group_;
  const Pairs& pairs_;
  const HeadRun& run_;
};

// The ends of spans, gathered row by row in the order of RowSpans, for the queries of a block.
class EdgeList {
 public:
  EdgeList(const RowSpans& rows, int64_t queries, const Columns& columns)
      : members_(rows.members), heads_(rows.heads), queries_(queries), columns_(columns) {}
  void add(int64_t query, const std::vector<Spans>& rows) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const Spans places = columns_.places(rows[r]);
      is_full_ = is_full_ && places.size() == 1 && places[0].end - places[0].begin == columns_.count;
      const int64_t first = (static_cast<int64_t>(r) * queries_ + query) * (columns_.count + 1);
      for (const Span& s : places) begins_.push_back(first + s.begin), ends_.push_back(first + s.end);
    }
  }
  bool is_full() const { return is_full_; }
  SpanEdges edges() const { return {at::tensor(begins_, at::kLong), at::tensor(ends_, at::kLong), members_, heads_}; }

 private:
  int64_t members_, heads_, queries_;
  const Columns& columns_;
  std::vector<int64_t> begins_, ends_;
  bool is_full_ = true;
};

class Divider {
 public:
  Divider(const BlockCall& call, ReferenceGroup& group) : call_(call), group_(group) {}

  void divide(const HeadRun& run, int64_t first = 0) {
    const RowSpans rows(call_, group_, call_.problem.spec.pairs(), run);
    while (first < group_.q.length) {
      const int64_t end = add_block(run, rows, first);
      if (end == first) return divide_heads(run, first);
      first = end;
    }
  }

 private:
  // Adds the block that begins at query `first`; returns its end, or `first` if not even one query fits.
  int64_t add_block(const HeadRun& run, const RowSpans& rows, int64_t first) {
    std::vector<std::vector<Spans>> taken;
    Columns columns;
    Spans seen;
    int64_t candidates = 0, i = first;
    for (; i < group_.q.length; ++i) {
      std::vector<Spans> row = rows.of(i);
      Spans now = seen;
      int64_t own = 0;
      for (const Spans& spans : row) now = joined(now, spans), own += size_of(spans);
      Columns wider = Columns::of(now);
      const int64_t count = i + 1 - first, heads = group_.count() * run.count;
      if (call_.budget.of(heads, count, wider.count) > call_.budget.bytes) {
        if (count == 1) return widest_ = wider.count, first;
        break;
      }
      const int64_t computed = rows.members * rows.heads * count * wider.count;
      if (count > 1 && heads * count * wider.count > kWorthABlock && 2 * (candidates + own) < computed) break;
      seen = std::move(now), columns = std::move(wider), candidates += own;
      taken.push_back(std::move(row));
    }
    if (columns.count > 0) group_.blocks.push_back(block_of(run, rows, columns, {first, i}, taken));
    return i;
  }

  ReferenceBlock block_of(const HeadRun& run, const RowSpans& rows, const Columns& columns, const Span& queries,
                          const std::vector<std::vector<Spans>>& taken) const {
    ReferenceBlock block{
        run, queries.begin, queries.end - queries.begin, columns.ranges[0].begin, columns.count, {}, {}, {}};
    if (columns.ranges.size() > 1) {
      std::vector<int64_t> places;
      for (const Span& range : columns.ranges) {
        for (int64_t j = range.begin; j < range.end; ++j) places.push_back(j);
      }
      block.key_places = at::tensor(places, at::kLong);
    }
    EdgeList candidates(rows, block.queries, columns);
    for (int64_t r = 0; r < block.queries; ++r) candidates.add(r, taken[static_cast<size_t>(r)]);
    if (!candidates.is_full()) block.candidates = candidates.edges();
    if (!call_.problem.spec.keep) return block;
    const RowSpans kept(call_, group_, *call_.problem.spec.keep, run);
    EdgeList keep(kept, block.queries, columns);
    for (int64_t r = 0; r < block.queries; ++r) keep.add(r, kept.of(queries.begin + r));
    block.keep = keep.edges();
    return block;
  }

  // Divides the queries from `first` on with fewer heads at once.
  void divide_heads(const HeadRun& run, int64_t first) {
    if (run.count == 1) refuse_row(call_.budget, group_.count() * widest_);
    HeadRun left = run, right = run;
    if (run.keys() > 1) {
      left.count = run.keys() / 2 * run.share;
      right.first_key = run.first_key + left.keys();
    } else {
      left.count = left.share = run.count / 2;
      right.share = run.count - left.count;
    }
    right.first = run.first + left.count, right.count = run.count - left.count;
    divide(left, first), divide(right, first);
  }

  const BlockCall& call_;
  ReferenceGroup& group_;
  int64_t widest_ = 0;
};

// Heads that read the same head of k and v side by side, as many for each: a call may begin and end within such heads.
std::vector<HeadRun> head_runs(const AttentionProblem& problem) {
  const int64_t share = problem.keys.share;
  std::vector<HeadRun> runs;
  for (int64_t h = 0; h < problem.num_heads;) {
    const int64_t key = problem.key_head(h), end = problem.heads_end(key);
    if (end - h == share) {
      const int64_t whole = (problem.num_heads - h) / share * share;
      runs.push_back({h, whole, share, key});
      h += whole;
    } else {
      runs.push_back({h, end - h, end - h, key});
      h = end;
    }
  }
  return runs;
}

}  // namespace

void divide_into_blocks(const BlockCall& call, ReferenceGroup& group) {
  Divider divider(call, group);
  for (const HeadRun& run : head_runs(call.problem)) divider.divide(run);
}

}  // namespace fovea::ops
