#pragma once
#include "fovea/kernels/attention/cpu/pack-inl.h"
#include "fovea/kernels/attention/cpu/select-inl.h"
#include "fovea/kernels/attention/cpu/weigh-inl.h"

// What forward and backward of cpu-rows share: which keys a task touches, and the rows' masks.
namespace fovea::kernels {
namespace {

// Key positions are counted from `begin`, a whole number of vectors, in every buffer of a task.
struct KeyWindow {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  int64_t padded() const { return round_up(size(), kLanes); }
};

inline KeyWindow window_of(const Candidates& table, int64_t first, int64_t count) {
  int64_t begin = INT32_MAX, end = 0;
  for (int64_t i = first; i < first + count; ++i) {
    const KeyRange row = table.hull[static_cast<size_t>(i)];
    if (row.begin == row.end) continue;
    begin = std::min<int64_t>(begin, row.begin);
    end = std::max<int64_t>(end, row.end);
  }
  return end == 0 ? KeyWindow{} : KeyWindow{round_down(begin, kLanes), end};
}

// Floats between rows of scores: an odd number of cache lines, so that equal columns do not share a cache set.
constexpr int64_t score_stride(int64_t keys) {
  const int64_t lines = round_up(keys, 16) / 16;
  return (lines | 1) * 16;
}

// Rows of scores worked on at once: enough for whole tiles, few enough for the first cache.
constexpr int64_t chunk_rows(int64_t q_count, int64_t keys) {
  const int64_t fitting = round_down(4096 / score_stride(keys), 12);
  return std::min(q_count, std::clamp<int64_t>(fitting, 12, 48));
}

inline void fill(float* s, int64_t begin, int64_t end, float value) {
  const F v = set(value);
  for (; begin + kLanes <= end; begin += kLanes) store(s + begin, v);
  if (begin < end) store_part(s + begin, v, end - begin);
}

// Vectors of a row that hold candidates, relative to the window.
struct RowPart {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Writes -inf over what is no candidate in the row's own vectors.
inline RowPart mask_row(float* s, const Candidates& table, int64_t query, const KeyWindow& window) {
  const KeyRange hull = table.hull[static_cast<size_t>(query)];
  if (hull.begin == hull.end) return {};
  const int64_t begin = hull.begin - window.begin, end = hull.end - window.begin;
  const RowPart part = {round_down(begin, kLanes), round_up(end, kLanes)};
  if (part.begin < begin) fill(s, part.begin, begin, -kInfinity);
  if (end < part.end) fill(s, end, part.end, -kInfinity);
  for (const KeyRange gap : table.gaps.of(query)) {
    fill(s, gap.begin - window.begin, gap.end - window.begin, -kInfinity);
  }
  return part;
}

// Top-k of one row. Keys of the `keep` pattern are set aside while the others compete, in `aside`, as long as the row.
struct RowSelection {
  int64_t k = 0;  // 0: no selection
  const Candidates* table = nullptr;
  int64_t window_begin = 0;
  float* aside = nullptr;

  void copy_kept(const float* from, float* to, int64_t query) const {
    for (const KeyRange kept : table->keep.of(query)) {
      std::memcpy(to + kept.begin - window_begin, from + kept.begin - window_begin,
                  static_cast<size_t>(kept.end - kept.begin) * sizeof(float));
    }
  }
  // Drops what is not selected and returns the threshold.
  float select(float* s, RowPart part, int64_t query) const {
    const auto kept = table->keep.of(query);
    copy_kept(s, aside, query);
    for (const KeyRange range : kept) fill(s, range.begin - window_begin, range.end - window_begin, -kInfinity);
    const float threshold = kth_greatest(s + part.begin, part.size(), k);
    drop_below(s + part.begin, part.size(), threshold);
    copy_kept(aside, s, query);
    return threshold;
  }
  void drop(float* s, RowPart part, int64_t query, float threshold) const {
    copy_kept(s, aside, query);
    drop_below(s + part.begin, part.size(), threshold);
    copy_kept(aside, s, query);
  }
};

// Dropout of one row: dropout.h in vectors.
struct RowDropout {
  uint32_t threshold = 0;  // 0: none
  float scale = 1;
  uint32_t key = 0;      // of the row
  int64_t position = 0;  // of the first entry

  void apply(float* s, int64_t n) const {
    const U row_key = set_uint(key), late_key = set_uint(key * 0x9e3779b9U), bound = set_uint(threshold);
    const F kept_scale = set(scale);
    U counter = (U)iota() + static_cast<uint32_t>(position);
    for (int64_t j = 0; j < n; j += kLanes, counter += static_cast<uint32_t>(kLanes)) {
      U x = counter ^ row_key;  // hash32 of base/rng.h
      x = (x ^ (x >> 16)) * 0x7feb352dU;
      x = (x ^ (x >> 15)) * 0x846ca68bU;
      x ^= (x >> 16) ^ late_key;
      x = (x ^ (x >> 16)) * 0x7feb352dU;
      x = (x ^ (x >> 15)) * 0x846ca68bU;
      x = x ^ (x >> 16);
      store(s + j, select(less(x, bound), set(0), load(s + j) * kept_scale));
    }
  }
};

inline RowDropout row_dropout(const AttentionProblem& problem, const RandomStream& random, int64_t head,
                              int64_t token) {
  if (problem.dropout <= 0) return {};
  return {.threshold = dropout_threshold(problem.dropout),
          .scale = dropout_scale(problem.dropout),
          .key = dropout_row_key(random.dropout_key, random.first_head + head, token)};
}

// Calls work(row transform) with the transform of the problem.
template <class Work>
void with_transform(const AttentionProblem& problem, const float* alpha, int64_t head, Work&& work) {
  const Transform& transform = problem.spec.transform;
  if (std::holds_alternative<Softmax>(transform)) return work(SoftmaxRow{});
  if (std::holds_alternative<Sparsemax>(transform)) return work(EntmaxRow{.alpha = 2.0F});
  if (const auto* entmax = std::get_if<Entmax>(&transform)) {
    EntmaxRow row{.alpha = entmax->learned ? alpha[head] : static_cast<float>(entmax->alpha)};
    row.wants_alpha = entmax->learned;
    return work(row);
  }
  if (std::holds_alternative<Relu>(transform)) return work(PointwiseRow<ReluFunction>{});
  if (std::holds_alternative<Gelu>(transform)) return work(PointwiseRow<GeluFunction>{});
  const auto slope = static_cast<float>(std::get<LeakyRelu>(transform).slope);
  return work(PointwiseRow<LeakyReluFunction>{{slope}});
}

// Scores of `rows` queries against the keys of `part` of the window; whole panels of packed keys.
struct ScoreProduct {
  const float* a = nullptr;
  int64_t a_row = 0;
  const float* panels = nullptr;
  int64_t width = 0;  // head_dim
  float* c = nullptr;
  int64_t c_row = 0;
  const float* factor = nullptr;
};
inline void multiply_panels(const ScoreProduct& p, int64_t rows, RowPart part) {
  for (int64_t panel = part.begin / kPanel; panel * kPanel < part.end; ++panel) {
    const int64_t from = std::max(panel * kPanel, part.begin), to = std::min((panel + 1) * kPanel, part.end);
    multiply({.a = p.a,
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

inline int64_t stats_width(const AttentionProblem& problem) {
  int64_t width = problem.spec.select ? 1 : 0;
  if (std::holds_alternative<Softmax>(problem.spec.transform)) width += SoftmaxRow::kStats;
  if (std::holds_alternative<Sparsemax>(problem.spec.transform)) width += EntmaxRow::kStats;
  if (std::holds_alternative<Entmax>(problem.spec.transform)) width += EntmaxRow::kStats;
  return width;
}

}  // namespace
}  // namespace fovea::kernels
