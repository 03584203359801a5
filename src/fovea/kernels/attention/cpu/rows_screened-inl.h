#pragma once
#include "fovea/kernels/attention/cpu/key_screen-inl.h"
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"

// A step of decoding with topk(k) over a cache with a KeyScreen: one query per sequence, which sees all keys. The keys
// that may be selected are found in the screen, and the rest of the work is that of ForwardTask on fewer columns: the
// bits are the same. Selected columns stay in their lanes, beside columns without a weight.
namespace fovea::kernels {
namespace {

struct ScreenedBuffers {
  float *query, *units, *reaches;  // of each query head that shares the keys; units: int8
  float* sums;                     // int32 [heads, stride]
  float* steps;                    // of keys that lie where a list says
  float *parts, *scores, *row, *out;
  float *listed, *columns;  // int32
  int64_t stride;
};

constexpr int64_t unit_floats(int64_t head_dim) { return key_screen_bytes(head_dim) / 4 + 16; }

inline ScreenedBuffers screened_buffers(Arena& arena, const AttentionProblem& problem, int64_t keys) {
  const int64_t padded = round_up(problem.head_dim, kLanes), stride = round_up(keys, 16) + 16;
  const int64_t heads = problem.keys.share;
  return {.query = arena.take(heads * padded),
          .units = arena.take(heads * unit_floats(problem.head_dim)),
          .reaches = arena.take(heads),
          .sums = arena.take(heads * stride),
          .steps = arena.take(problem.keys_listed ? stride : 0),
          .parts = arena.take(stride),
          .scores = arena.take(stride),
          .row = arena.take(stride),
          .out = arena.take(padded),
          .listed = arena.take(stride),
          .columns = arena.take(stride),
          .stride = stride};
}

// Writes a query in whole numbers. Returns how far a key's sum may lie from its exact score, over scale step step_q; 0
// if the query cannot be screened.
inline float units_of(const float* query, int64_t width, float scale, const float* extents, int8_t* units) {
  constexpr float kUnit = 0x1p-23F, kLeastScale = 0x1p-20F, kMostScale = 0x1p20F;
  const Extent extent = extent_of(query, nullptr, padded_floats(width));
  const float size = std::abs(scale);
  if (!extent.finite || !(extent.top >= kLeastScreened && extent.top <= kMostScreened)) return 0;
  if (!(size >= kLeastScale && size <= kMostScale)) return 0;
  const float inverse = 127 / extent.top;
  const UnitNorms norms =
      to_units(query, nullptr, width, {scale < 0 ? -inverse : inverse, key_screen_bytes(width)}, units);
  const auto terms = static_cast<float>(width);
  const float rounded = (norms.whole + norms.rest) * extents[1] + norms.rest * extents[0];
  const float exact = (terms / kLanes + 32) * kUnit * norms.whole * extents[2];
  // The last two are for the rounding of bounds, whose sums are at most 127^2 for each dimension, and for results below
  // the normal range.
  return (rounded + exact) * (1 + 0x1p-10F) + 127 * 127 * 0x1p-22F * terms + 1;
}

class ScreenedRows {
 public:
  // keys: the most that a sequence has.
  ScreenedRows(const RowsCall& call, int64_t keys, float* scratch) : problem_(*call.problem), in_(*call.forward) {
    Arena arena(scratch);
    b_ = screened_buffers(arena, problem_, keys);
  }

  // All query heads that read key_head.
  void run(const Sequence& sequence, int64_t key_head) const {
    const int64_t first = problem_.keys.first_head(key_head), heads = problem_.heads_end(key_head) - first;
    for (int64_t i = 0; i < heads; ++i) begin(sequence, first + i, i);
    sum_up(sequence, key_head, heads);
    const float* steps = steps_of(sequence, key_head);
    for (int64_t i = 0; i < heads; ++i) {
      const int64_t listed = b_.reaches[i] > 0 ? list_candidates(sequence.k_length, i, steps) : list_all(sequence);
      score(sequence, first + i, i, listed);
      // A score is NaN only if its key is not finite, and such keys are listed. Nothing is then selected.
      const int64_t scored = listed < sequence.k_length && any_nan(listed) ? list_all(sequence) : listed;
      if (scored != listed) score(sequence, first + i, i, scored);
      finish(sequence, first + i, select(sequence, first + i, scored));
    }
  }

 private:
  float* query_of(int64_t i) const { return b_.query + i * padded_floats(problem_.head_dim); }
  int8_t* units(int64_t i) const { return reinterpret_cast<int8_t*>(b_.units + i * unit_floats(problem_.head_dim)); }
  int32_t* sums(int64_t i) const { return reinterpret_cast<int32_t*>(b_.sums + i * b_.stride); }
  int32_t* listed() const { return reinterpret_cast<int32_t*>(b_.listed); }
  int32_t* columns() const { return reinterpret_cast<int32_t*>(b_.columns); }
  TokenList tokens(const Sequence& sequence, const int32_t* list) const {
    return {sequence.k_begin, 1, list, in_.key_tokens};
  }
  const int64_t* places(const Sequence& sequence) const {
    return in_.key_tokens == nullptr ? nullptr : in_.key_tokens + sequence.k_begin;
  }

  void begin(const Sequence& sequence, int64_t head, int64_t i) const {
    pack_rows(head_rows(in_.q, head, problem_.dtype), {sequence.q_begin, 1, nullptr}, 1, problem_.head_dim,
              query_of(i));
    const float* extents = in_.screen.extents + problem_.key_head(head) * kKeyScreenExtents;
    b_.reaches[i] = units_of(query_of(i), problem_.head_dim, in_.scale, extents, units(i));
  }

  // The sums of all heads' units with the screen's rows, part by part, so that all heads find a part near.
  void sum_up(const Sequence& sequence, int64_t key_head, int64_t heads) const {
    constexpr int64_t kPart = 4096;
    const KeyScreen& screen = in_.screen;
    const int64_t* list = places(sequence);
    for (int64_t begin = 0; begin < sequence.k_length; begin += kPart) {
      for (int64_t i = 0; i < heads; ++i) {
        if (b_.reaches[i] == 0) continue;
        sums_({.query = units(i),
               .bytes = key_screen_bytes(problem_.head_dim),
               .rows = screen.rows.data + key_head * screen.rows.head_stride,
               .stride = screen.rows.token_stride,
               .tokens = list == nullptr ? nullptr : list + begin,
               .first = sequence.k_begin + begin,
               .count = std::min(kPart, sequence.k_length - begin),
               .sums = sums(i) + begin});
      }
    }
  }

  const float* steps_of(const Sequence& sequence, int64_t key_head) const {
    const float* steps = in_.screen.steps.data + key_head * in_.screen.steps.head_stride;
    const int64_t* list = places(sequence);
    if (list == nullptr) return steps + sequence.k_begin;
    for (int64_t c = 0; c < sequence.k_length; ++c) b_.steps[c] = steps[list[c]];
    return b_.steps;
  }

  // Bounds of a vector of keys' scores over scale step_q, -infinity behind the last key. NaN: nothing is known.
  static F bounds(const int32_t* sums, const float* steps, int64_t left, float reach) {
    const F shifted = to_float(load_int(sums)) + set(reach);
    if (left >= kLanes) return load(steps) * shifted;
    return kernels::select(kernels::first(left), load_part(steps, left) * shifted, set(-kInfinity));
  }

  // A bound that at least k scores reach: the k-th greatest among the greatest lower bounds of disjoint parts.
  float threshold(int64_t keys, int64_t i, const float* steps) const {
    const int64_t k = problem_.spec.top_k()->k, group = std::clamp<int64_t>(keys / (8 * k), 1, 32) * kLanes;
    int64_t parts = 0;
    for (int64_t begin = 0; begin < keys; begin += group) {
      F best = set(-kInfinity);
      for (int64_t c = begin; c < std::min(begin + group, keys); c += kLanes) {
        best = max(bounds(sums(i) + c, steps + c, keys - c, -b_.reaches[i]), best);
      }
      store(b_.parts + parts, best);
      parts += kLanes;
    }
    return kth_greatest(b_.parts, parts, k);
  }

  // Lists the keys that may be selected, in ascending order, and returns their number.
  int64_t list_candidates(int64_t keys, int64_t i, const float* steps) const {
    const F least = set(threshold(keys, i, steps));
    int64_t count = 0;
    for (int64_t c = 0; c < keys; c += kLanes) {
      const uint32_t there = kernels::bits(kernels::first(keys - c));
      const uint32_t below = kernels::bits(less(bounds(sums(i) + c, steps + c, keys - c, b_.reaches[i]), least));
      const uint32_t may = there & ~below;
      if (may != 0) count += compress_store(listed() + count, may, iota() + static_cast<int32_t>(c));
    }
    return count;
  }
  int64_t list_all(const Sequence& sequence) const {
    for (int64_t c = 0; c < sequence.k_length; ++c) listed()[c] = static_cast<int32_t>(c);
    return sequence.k_length;
  }

  // Exact scores of the listed keys, and -infinity behind them.
  void score(const Sequence& sequence, int64_t head, int64_t i, int64_t count) const {
    constexpr int64_t kAsked = 256;
    const HeadRows keys = head_rows(in_.k, problem_.key_head(head), problem_.dtype);
    const SingleRow row{query_of(i), keys, tokens(sequence, listed()), problem_.head_dim, 0};
    for (int64_t c = 0; c < std::min(count, kAsked); ++c) prefetch_row(keys, row.tokens[c], row.width);
    score_single(row, count, in_.scale, b_.scores);
    fill(b_.scores, count, round_up(count, kLanes), -kInfinity);
  }
  bool any_nan(int64_t count) const {
    uint32_t nans = 0;
    for (int64_t c = 0; c < count; c += kLanes) nans |= kernels::bits(is_nan(load(b_.scores + c)));
    return nans != 0;
  }

  // Writes the selected scores to b_.row, each in the lane that its key has among all keys, and the keys of these lanes
  // to columns(). Returns their number, whole vectors.
  int64_t select(const Sequence& sequence, int64_t head, int64_t count) const {
    const HeadRows values = head_rows(in_.v, problem_.key_head(head), problem_.dtype);
    const TokenList keys = tokens(sequence, listed());
    const float least = kth_greatest(b_.scores, round_up(count, kLanes), problem_.spec.top_k()->k);
    int64_t end = 0, vector = -1;
    for (int64_t c = 0; c < count; ++c) {
      if (b_.scores[c] < least) continue;
      const int32_t key = listed()[c];
      if (key / kLanes != vector) {
        vector = key / kLanes;
        store(b_.row + end, set(-kInfinity));
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          columns()[end + lane] = static_cast<int32_t>(std::min(vector * kLanes + lane, sequence.k_length - 1));
        }
        end += kLanes;
      }
      b_.row[end - kLanes + key % kLanes] = b_.scores[c];
      prefetch_row(values, keys[c], problem_.head_dim);
    }
    return end;
  }

  // Scores in b_.row to the output.
  void finish(const Sequence& sequence, int64_t head, int64_t columns_count) const {
    float factor = 1;
    with_transform(problem_, in_.alpha, head, [&](const auto& transform) {
      transform.weigh({.s = b_.row, .stride = b_.stride, .n = columns_count}, 1, &factor);
    });
    const HeadRows values = head_rows(in_.v, problem_.key_head(head), problem_.dtype);
    mix_single<true>({nullptr, values, tokens(sequence, columns()), problem_.head_dim, 0}, columns_count, b_.row,
                     factor, b_.out);
    unpack_rows({b_.out, padded_floats(problem_.head_dim), problem_.head_dim}, head_rows(in_.out, head, problem_.dtype),
                {sequence.q_begin, 1, nullptr}, 1);
  }

  const AttentionProblem& problem_;
  const AttentionForward& in_;
  KeyScreenSums sums_ = key_screen_sums();
  ScreenedBuffers b_{};
};

}  // namespace
}  // namespace fovea::kernels
