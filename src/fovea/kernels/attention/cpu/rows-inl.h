#pragma once
#include "fovea/kernels/attention/cpu/pack-inl.h"
#include "fovea/kernels/attention/cpu/threshold-inl.h"
#include "fovea/kernels/simd/hash-inl.h"
#include "fovea/kernels/simd/tanh-inl.h"

// Shared by forward and backward of cpu-rows: the shape of a task's buffers, and the rows' masks.
namespace fovea::kernels {
namespace {

// Floats between rows of scores: an odd number of cache lines, so that equal columns do not share a cache set.
constexpr int64_t score_stride(int64_t columns) {
  const int64_t lines = round_up(columns, 16) / 16;
  return (lines | 1) * 16;
}

// Rows of scores worked on at once: enough for whole tiles, few enough for the nearer caches.
constexpr int64_t kChunkFloats = 8192, kMostRows = 48;
constexpr int64_t chunk_rows(int64_t queries, int64_t columns) {
  const int64_t fitting = round_down(kChunkFloats / score_stride(columns), 12);
  return std::min(queries, std::clamp<int64_t>(fitting, 12, kMostRows));
}

// The largest sizes among a task's groups.
struct TaskSize {
  int64_t columns = 0, rows = 0, scores = 0;  // rows of a chunk, floats of its scores
  int64_t packed = 0;                         // columns of groups of several queries: single() packs no keys or values
  int64_t gathered = 0;                       // columns of groups that are not RowGroup::given
  int64_t listed = 0;                         // columns whose keys HeadView::begin_group() writes down
};
inline TaskSize size_of(const Candidates& table, const RowsTask& task) {
  TaskSize size;
  for (int64_t g = task.group_begin; g < task.group_end; ++g) {
    const RowGroup& group = table.groups[static_cast<size_t>(g)];
    const int64_t rows = chunk_rows(group.queries, group.columns);
    size.columns = std::max<int64_t>(size.columns, group.columns);
    if (group.queries > 1) size.packed = std::max<int64_t>(size.packed, group.columns);
    if (!group.given) size.gathered = std::max<int64_t>(size.gathered, group.columns);
    if (group.given && table.block > 1) size.listed = std::max(size.listed, score_stride(group.columns));
    size.rows = std::max(size.rows, rows);
    size.scores = std::max(size.scores, rows * score_stride(group.columns));
  }
  return size;
}

// head_dim and the number of keys.
struct HeadShape {
  int64_t width = 0, keys = 0;
};

// Columns [begin, end), whole vectors.
struct ColumnPart {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Whole vectors around all columns that rows [first, first + rows) of the group see.
inline ColumnPart hull_of(const Candidates& table, const RowGroup& group, int64_t first, int64_t rows) {
  int64_t begin = INT32_MAX, end = 0;
  for (int64_t r = group.row + first; r < group.row + first + rows; ++r) {
    const ColumnRange row = table.hull[static_cast<size_t>(r)];
    if (row.begin == row.end) continue;
    begin = std::min<int64_t>(begin, row.begin);
    end = std::max<int64_t>(end, row.end);
  }
  return end == 0 ? ColumnPart{} : ColumnPart{round_down(begin, kLanes), round_up(end, kLanes)};
}

inline void fill(float* s, int64_t begin, int64_t end, float value) {
  const F v = set(value);
  for (; begin + kLanes <= end; begin += kLanes) store(s + begin, v);
  if (begin < end) store_part(s + begin, v, end - begin);
}

// Writes -inf over all columns within `part` that are not candidates.
inline void mask_row(float* s, const Candidates& table, int64_t row, ColumnPart part) {
  const ColumnRange hull = table.hull[static_cast<size_t>(row)];
  const int64_t begin = hull.begin == hull.end ? part.end : hull.begin;
  if (part.begin < begin) fill(s, part.begin, begin, -kInfinity);
  if (hull.end < part.end) fill(s, std::max<int64_t>(hull.end, begin), part.end, -kInfinity);
  for (const ColumnRange gap : table.gaps.of(row)) fill(s, gap.begin, gap.end, -kInfinity);
}

// Caps a row of scores. Where `slopes` is not null, it gets the derivatives.
inline void cap_row(const SoftCap& cap, float* s, ColumnPart part, float* slopes) {
  for (int64_t c = part.begin; c < part.end; c += kLanes) {
    const Tanh capped = cap(load(s + c));
    store(s + c, capped.value);
    if (slopes != nullptr) store(slopes + c, capped.slope);
  }
}

// s *= factors
inline void multiply_row(float* s, const float* factors, ColumnPart part) {
  for (int64_t c = part.begin; c < part.end; c += kLanes) store(s + c, load(s + c) * load(factors + c));
}

// The selection of one row. Keys of the `keep` pattern are set aside while the others compete, in `aside`, as long as
// the row.
struct RowSelection {
  const Selection& selection;
  std::span<const ColumnRange> kept;
  float *aside, *room;  // as long as the row; `room` for select()

  void copy_kept(const float* from, float* to) const {
    for (const ColumnRange range : kept) {
      std::memcpy(to + range.begin, from + range.begin, static_cast<size_t>(range.end - range.begin) * sizeof(float));
    }
  }
  // Drops scores that are not selected and returns the threshold.
  float select(float* s, ColumnPart part) const {
    copy_kept(s, aside);
    for (const ColumnRange range : kept) fill(s, range.begin, range.end, -kInfinity);
    const float threshold = threshold_of(selection, s + part.begin, part.size(), room);
    drop_below(s + part.begin, part.size(), threshold);
    copy_kept(aside, s);
    return threshold;
  }
  void drop(float* s, ColumnPart part, float threshold) const {
    copy_kept(s, aside);
    drop_below(s + part.begin, part.size(), threshold);
    copy_kept(aside, s);
  }
};

// Dropout of one row: dropout.h in vectors.
struct RowDropout {
  uint32_t threshold = 0;  // 0: none
  float scale = 1;
  uint32_t key = 0;  // of the row
  int32_t key_begin = 0, key_step = 1;
  const int32_t* list = nullptr;  // key positions of the columns; null: the progression

  void apply(float* s, ColumnPart part) const {
    const U bound = set_uint(threshold);
    const F kept_scale = set(scale);
    for (int64_t c = part.begin; c < part.end; c += kLanes) {
      const I position =
          list == nullptr ? (iota() + static_cast<int32_t>(c)) * key_step + key_begin : load_int(list + c);
      const M dropped = less(hash32_of(key, (U)position), bound);
      store(s + c, select(dropped, set(0), load(s + c) * kept_scale));
    }
  }
};

// Calls work(row transform) with the transform of the problem.
template <class Work>
void with_transform(const AttentionProblem& problem, const float* alpha, int64_t head, Work&& work) {
  const Transform& transform = problem.spec.transform;
  if (with_pointwise(transform, [&]<class Function>(Function function) { work(PointwiseRow<Function>{function}); }))
    return;
  if (std::holds_alternative<Softmax>(transform)) return work(SoftmaxRow{});
  if (std::holds_alternative<Sparsemax>(transform)) return work(EntmaxRow{.power = EntmaxPower(2)});
  if (std::holds_alternative<Sink>(transform)) return work(SoftmaxRows<true>{.sink = *sink_of(transform, alpha, head)});
  const auto& entmax = std::get<Entmax>(transform);
  work(EntmaxRow{.power = EntmaxPower(entmax.learned ? double{alpha[head]} : entmax.alpha),
                 .wants_alpha = entmax.learned});
}

inline int64_t stats_width(const AttentionProblem& problem) {
  static_assert(SoftmaxRow::kStats == EntmaxRow::kStats);
  return (problem.spec.selects() ? 1 : 0) + (is_pointwise(problem.spec.transform) ? 0 : SoftmaxRow::kStats);
}

// One sequence under one head.
struct SequenceView {
  const AttentionProblem& problem;
  const Sequence& sequence;
  const RandomStream& random;
  const int64_t* key_tokens = nullptr;  // as in AttentionForward
  int64_t head, width, padded;          // padded: head_dim in whole vectors
  int64_t stats, stats_begin;           // floats of a row; where the sequence's begin

  template <class Args>
  SequenceView(const AttentionProblem& of, const Sequence& one, int64_t its_head, const Args& args)
      : problem(of),
        sequence(one),
        random(args.random),
        head(its_head),
        width(of.head_dim),
        padded(round_up(width, kLanes)),
        stats(stats_width(of)),
        stats_begin(one.q_begin * of.num_heads * args.saved.floats) {
    if constexpr (requires { args.key_tokens; }) key_tokens = args.key_tokens;
  }

  int64_t stats_at(int64_t query) const { return stats_begin + (query * problem.num_heads + head) * stats; }
  int64_t key_head() const { return problem.key_head(head); }
  int64_t index() const { return &sequence - problem.sequences.data(); }
  // The words in which the head's products are computed.
  Words words(const Bf16Flags& flags) const {
    if constexpr (!kBf16Pairs) return Words::kFloats;
    return flags.of(index(), head) ? Words::kBf16 : Words::kFloats;
  }
  // The dropout of a query token's row, whose keys are key_begin, key_begin + key_step, ...
  RowDropout dropout_of(int64_t token, int64_t key_begin, int64_t key_step) const {
    if (problem.dropout <= 0) return {};
    return {.threshold = dropout_threshold(problem.dropout),
            .scale = dropout_scale(problem.dropout),
            .key = dropout_row_key(random.dropout_key, random.first_head + head, token),
            .key_begin = static_cast<int32_t>(key_begin),
            .key_step = static_cast<int32_t>(key_step)};
  }
};

// A SequenceView with its candidates.
struct HeadView : SequenceView {
  const Candidates& table;
  int32_t* room = nullptr;  // [TaskSize::listed]

  template <class Args>
  HeadView(const RowsCall& call, const RowsTask& task, const Args& args)
      : SequenceView(*call.problem, call.problem->sequences[static_cast<size_t>(task.sequence)], task.head, args),
        table(call.tables->of(task.sequence, task.head)) {}

  // Comes before all that asks for the group's keys.
  void begin_group(const RowGroup& group) {
    if (!group.given || group.columns == 0) return;
    const int32_t* blocks = table.given + group.list_at;
    given_ = table.block == 1 ? blocks : room;
    if (table.block == 1) return;
    for (int64_t c = 0; c < group.columns; ++blocks) {
      const int64_t first = *blocks * table.block, end = std::min<int64_t>(c + table.block, group.columns);
      for (int64_t begin = c; c < end; ++c) room[c] = static_cast<int32_t>(first + c - begin);
    }
  }
  // The keys of the group's columns; null: the progression.
  const int32_t* list(const RowGroup& group) const { return group.given ? given_ : table.list(group); }
  TokenList keys(const RowGroup& group) const {
    const int32_t* list = this->list(group);
    return {sequence.k_begin + (list == nullptr ? group.key_begin : 0), group.key_step, list, key_tokens};
  }
  TokenList queries(const RowGroup& group, int64_t first) const {
    return {sequence.q_begin + group.first_query + first * group.query_step, group.query_step, nullptr};
  }
  int64_t stats_of(int64_t token) const { return stats_at(token - sequence.q_begin); }
  RowDropout dropout(const RowGroup& group, int64_t token) const {
    RowDropout row = dropout_of(token, group.key_begin, group.key_step);
    row.list = list(group);
    return row;
  }

 private:
  const int32_t* given_ = nullptr;
};

// The target of a product: the array itself if its rows are whole vectors of floats, otherwise rows of scratch.
struct Target {
  float* data;
  int64_t stride;
  bool direct;
};
inline Target target_of(const HeadRows& rows, const TokenList& tokens, int64_t width, float* scratch) {
  if (rows.lane != Lane::kFloat || width % kLanes != 0) return {scratch, round_up(width, kLanes), false};
  float* data = static_cast<float*>(const_cast<void*>(rows.data));
  return {data + tokens[0] * rows.stride, rows.stride * tokens.step, true};
}

// Scores of `rows` queries against the columns of `part`; whole panels of packed keys.
struct ScoreProduct {
  const float* a = nullptr;
  int64_t a_row = 0;
  const float* panels = nullptr;
  int64_t width = 0;  // words of a row
  float* c = nullptr;
  int64_t c_row = 0;
  const float* factor = nullptr;
};
template <Words kWords = Words::kFloats>
void multiply_panels(const ScoreProduct& p, int64_t rows, ColumnPart part) {
  for (int64_t panel = part.begin / kPanel; panel * kPanel < part.end; ++panel) {
    const int64_t from = std::max(panel * kPanel, part.begin), to = std::min((panel + 1) * kPanel, part.end);
    multiply<kWords>({.a = p.a,
                      .a_row = p.a_row,
                      .b = p.panels + panel * kPanel * p.width + (from - panel * kPanel),
                      .b_step = kPanel,
                      .c = p.c + from,
                      .c_row = p.c_row,
                      .depth = p.width,
                      .factor = p.factor},
                     rows, (to - from) / kLanes);
  }
}

}  // namespace
}  // namespace fovea::kernels
