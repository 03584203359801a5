#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fovea/kernels/attention/cpu/candidates.h"
#include "fovea/kernels/attention/cpu/float_order.h"
#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/offsets-inl.h"

namespace fovea::kernels {
namespace {

// Hits are appended by units of as many keys as a vector has lanes, or one by one with short vectors.
constexpr int kUnitKeys = kLanes == 8 ? 8 : kGroupKeys;

// A bit for each unit with a hit, of the hits of `allowed` unless it is null. Both are read where they lie: a copy in
// between would be stored in parts and loaded whole, and the load waits.
uint64_t units_with_hits(const uint16_t* hits, const uint64_t* allowed) {
#if FOVEA_AVX512
  const __m512i all = _mm512_loadu_si512(hits);
  return _mm512_test_epi16_mask(all, allowed == nullptr ? all : _mm512_loadu_si512(allowed));
#elif FOVEA_ISA == 1
  const auto missing = [&](int half) {
    const __m256i some = _mm256_loadu_si256((const __m256i*)hits + half);
    const __m256i kept = allowed == nullptr ? some : some & _mm256_loadu_si256((const __m256i*)allowed + half);
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(kept, _mm256_setzero_si256())));
  };
  return ~(missing(0) | uint64_t{missing(1)} << 32);
#else
  uint64_t units = 0;
  for (int g = 0; g < kBlockGroups; ++g) {
    const uint64_t kept = allowed == nullptr ? ~uint64_t{0} : allowed[g / 4] >> (g % 4 * 16);
    units |= ((hits[g] & kept) != 0 ? uint64_t{1} : 0) << g;
  }
  return units;
#endif
}

// The scores of the keys at ... at + kLanes - 1, where `at` is a multiple of kLanes, straight from memory: a copy in
// between would be stored in halves and loaded whole, and the load waits.
template <ScoreType kType>
F scores_at(const ScreenedRow& row, int at) {
  if constexpr (kType == ScoreType::kInt16) {
    using Shorts = int16_t __attribute__((vector_size(2 * kLanes)));
    constexpr int kTogether = kLanes < 8 ? kLanes : 8;
    Shorts raw;
    for (int lane = 0; lane < kLanes; lane += kTogether) {
      std::memcpy(reinterpret_cast<char*>(&raw) + lane * 2,
                  reinterpret_cast<const int16_t*>(row.scores) + place_of_pair_key(at + lane), kTogether * 2);
    }
    return to_float(__builtin_convertvector(raw, I));
  } else {
    const I raw = load_int(reinterpret_cast<const int32_t*>(row.scores) + at);
    if constexpr (kType == ScoreType::kInt32) return to_float(raw);
    return as_float(raw);
  }
}

template <ScoreType kType>
float score_at(const ScreenedRow& row, int at) {
  using Raw = std::conditional_t<kType == ScoreType::kInt16, int16_t,
                                 std::conditional_t<kType == ScoreType::kInt32, int32_t, float>>;
  Raw raw;
  const int64_t place = kType == ScoreType::kInt16 ? place_of_pair_key(at) : at;
  std::memcpy(&raw, reinterpret_cast<const char*>(row.scores) + place * static_cast<int64_t>(sizeof raw), sizeof raw);
  return static_cast<float>(raw);
}

template <ScoreType kType>
using Type = std::integral_constant<ScoreType, kType>;

template <class Work>
decltype(auto) with_type(const ScreenedRow& row, Work&& work) {
  if (row.type == ScoreType::kInt16) return work(Type<ScoreType::kInt16>{});
  return row.type == ScoreType::kInt32 ? work(Type<ScoreType::kInt32>{}) : work(Type<ScoreType::kFloat32>{});
}

// The marks of a unit's keys that are allowed.
uint32_t marks_of(const ScreenedRow& row, int unit) {
  using Marks = std::conditional_t<kUnitKeys == 8, uint8_t, uint16_t>;
  Marks marks, allowed;
  std::memcpy(&marks, reinterpret_cast<const char*>(row.hits) + unit * static_cast<int>(sizeof marks), sizeof marks);
  if (row.allowed == nullptr) return marks;
  std::memcpy(&allowed, reinterpret_cast<const char*>(row.allowed) + unit * static_cast<int>(sizeof marks),
              sizeof marks);
  return marks & allowed;
}

// Without a branch for each hit, which would seldom be predicted.
template <ScoreType kType>
int64_t append_units(const ScreenedRow& row, float* bounds, int32_t* keys, int64_t count) {
  const F factor = set(row.factor), bound = set(-row.bound);
  const int32_t first_key = row.first_key;  // a copy: what is written might be the row, for all GCC knows
  for (uint64_t units = units_with_hits(row.hits, row.allowed); units != 0; units &= units - 1) {
    const int unit = __builtin_ctzll(units), at = unit * kUnitKeys;
    const uint32_t marked = marks_of(row, unit);
    compress_store(keys + count, marked, iota() + (first_key + at));
    count += compress_store(bounds + count, marked, fma(scores_at<kType>(row, at), factor, bound));
  }
  return count;
}

// Two of a unit at a time, whether there are as many or not: the end of a loop over the hits themselves would seldom be
// predicted. What lies beyond the new count is overwritten later.
template <ScoreType kType>
int64_t append_hits(const ScreenedRow& row, float* bounds, int32_t* keys, int64_t count) {
  const float factor = row.factor, bound = row.bound;  // copies: what is written might be the row, for all GCC knows
  const int32_t first_key = row.first_key;
  for (uint64_t units = units_with_hits(row.hits, row.allowed); units != 0; units &= units - 1) {
    const int unit = __builtin_ctzll(units);
    uint32_t marked = marks_of(row, unit);
    const int64_t end = count + __builtin_popcount(marked);
    do {
      for (int i = 0; i < 2; ++i) {
        const int at = unit * kUnitKeys + __builtin_ctz(marked | 1U << (kUnitKeys - 1));
        keys[count + i] = first_key + at;
        bounds[count + i] = score_at<kType>(row, at) * factor - bound;
        marked &= marked - 1;
      }
      count += 2;
    } while (marked != 0);
    count = end;
  }
  return count;
}

template <ScoreType kType>
void sample_parts(const ScreenedRow& row, float* bounds) {
  const F factor = set(row.factor), bound = set(-row.bound);
  for (int part = 0; part < kSampled; part += kLanes) {
    F high = set(-kInfinity);
    for (int at = part; at < kBlockKeys; at += kSampled) high = max(high, scores_at<kType>(row, at));
    store(bounds + part, fma(high, factor, bound));
  }
}

template <ScoreType kType>
ScoreMoments moments_of(const ScreenedRow& row) {
  constexpr int kVectors = 16 / kLanes;
  F total = set(0), squares = set(0), highs[kVectors];
  for (F& high : highs) high = set(-kInfinity);
  for (int group = 0; group < kBlockKeys; group += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const F score = scores_at<kType>(row, group + v * kLanes);
      total = total + score;
      squares = fma(score, score, squares);
      highs[v] = max(highs[v], score);
    }
  }
  F high = highs[0];
  for (int v = 1; v < kVectors; ++v) high = high + highs[v];
  const float mean = sum(total) / kBlockKeys, variance = sum(squares) / kBlockKeys - mean * mean;
  return {mean * row.factor, variance > 0 ? __builtin_sqrtf(variance) * row.factor : 0, sum(high) / 16 * row.factor};
}

template <ScoreType kType>
void mark_hits(const ScreenedRow& row, float least, uint16_t* hits) {
  const F factor = set(row.factor), bound = set(-row.bound), limit = set(least);
  for (int group = 0; group < kBlockGroups; ++group) {
    uint32_t mask = 0;
    for (int lane = 0; lane < kGroupKeys; lane += kLanes) {
      const F score = scores_at<kType>(row, group * kGroupKeys + lane);
      mask |= bits(less_equal(limit, fma(score, factor, bound))) << lane;
    }
    hits[group] = static_cast<uint16_t>(mask);
  }
}

template <ScoreType kType>
void add_row_terms(const ScreenedRow& row, const ScreenedTerms& terms, float* scores, uint16_t* hits) {
  float added[kBlockKeys] = {};
  const ColumnRange all = {0, kBlockKeys};
  const ColumnOffsets offsets = {terms.first_offset, 1, nullptr};
  if (terms.by_head != nullptr) add_at_offsets(added, all, offsets, {terms.by_head, terms.by_head_range});
  if (terms.by_query != nullptr) add_at_offsets(added, all, offsets, {terms.by_query, terms.by_query_range});
  const F factor = set(row.factor), unit = set(terms.unit), limit = set(terms.least);
  // Floats would overwrite scores of half their size before these are read.
  float* sums = kType == ScoreType::kInt16 ? added : scores;
  for (int group = 0; group < kBlockGroups; ++group) {
    uint32_t mask = 0;
    for (int lane = 0; lane < kGroupKeys; lane += kLanes) {
      const int at = group * kGroupKeys + lane;
      const F sum = fma(scores_at<kType>(row, at), factor, load(added + at) * unit);
      store(sums + at, sum);
      mask |= bits(less_equal(limit, sum)) << lane;
    }
    hits[group] = static_cast<uint16_t>(mask);
  }
  if (sums != scores) std::memcpy(scores, sums, sizeof added);
}

// Fills the last vector with -infinity.
void pad(float* values, int64_t count) { store(values + count, set(-kInfinity)); }

int64_t count_reaching(const float* values, int64_t count, float least) {
  int64_t reaching = 0;
  const F bound = set(least);
  for (int64_t i = 0; i < count; i += kLanes) {
    reaching += __builtin_popcount(bits(less_equal(bound, load(values + i))));
  }
  return reaching;
}

struct Range {
  float least, greatest;
};

Range range_of(const float* values, int64_t count) {
  F low = set(kInfinity), high = set(-kInfinity);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = i + kLanes <= count ? load(values + i) : select(first(count - i), load(values + i), set(values[0]));
    low = min(low, v);
    high = max(high, v);
  }
  return {-greatest(set(0) - low), greatest(high)};
}

float least_reaching(const float* values, int64_t count, float bound) {
  F low = set(kInfinity);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = load(values + i);
    low = min(low, select(less_equal(set(bound), v), v, set(kInfinity)));
  }
  return -greatest(set(0) - low);
}

}  // namespace

template <Isa kIsa>
int64_t ScreenScan<kIsa>::append(const ScreenedRow& row, float* bounds, int32_t* keys, int64_t count) {
  return with_type(row, [&](auto type) {
    if constexpr (kLanes == kUnitKeys) return append_units<type.value>(row, bounds, keys, count);
    return append_hits<type.value>(row, bounds, keys, count);
  });
}

template <Isa kIsa>
void ScreenScan<kIsa>::sample(const ScreenedRow& row, float* bounds) {
  with_type(row, [&](auto type) { sample_parts<type.value>(row, bounds); });
}

template <Isa kIsa>
ScoreMoments ScreenScan<kIsa>::moments(const ScreenedRow& row) {
  return with_type(row, [&](auto type) { return moments_of<type.value>(row); });
}

template <Isa kIsa>
void ScreenScan<kIsa>::add_terms(const ScreenedRow& row, const ScreenedTerms& terms, float* scores, uint16_t* hits) {
  with_type(row, [&](auto type) { add_row_terms<type.value>(row, terms, scores, hits); });
}

template <Isa kIsa>
void ScreenScan<kIsa>::mark(const ScreenedRow& row, float least, uint16_t* hits) {
  with_type(row, [&](auto type) { mark_hits<type.value>(row, least, hits); });
}

template <Isa kIsa>
int64_t ScreenScan<kIsa>::prune(float least, float* bounds, int32_t* keys, int64_t count) {
  pad(bounds, count);
  const F bound = set(least);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = load(bounds + i);
    const I key = load_int(keys + i);
    M mask = less_equal(bound, v);
    if (i + kLanes > count) mask = both(mask, first(count - i));
    const uint32_t reached = bits(mask);
    compress_store(keys + kept, reached, key);
    kept += compress_store(bounds + kept, reached, v);
  }
  return kept;
}

template <Isa kIsa>
float ScreenScan<kIsa>::reached_by(float* values, int64_t count, int64_t k, int64_t slack) {
  if (count < k) return -kInfinity;
  pad(values, count);
  auto [low, high] = range_of(values, count);
  int64_t reaching = count;
  for (int round = 0; round < 20 && reaching > k + slack; ++round) {
    const float middle = low + (high - low) / 2;
    if (!(low < middle && middle < high)) break;
    const int64_t at_middle = count_reaching(values, count, middle);
    if (at_middle >= k) {
      low = middle;
      reaching = at_middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <Isa kIsa>
float ScreenScan<kIsa>::kth_greatest(float* values, int64_t count, int64_t k) {
  pad(values, count);
  auto [low, high] = range_of(values, count);
  if (k >= count) return low;
  // Bisects between values and then, for wide ranges and ties, between their codes. The invariant: k or more values
  // reach `low`, and fewer than k lie above `high`.
  for (int round = 0; round < 16 && low < high; ++round) {
    const float middle = low + (high - low) / 2;
    if (!(low < middle && middle < high)) break;
    const int64_t reaching = count_reaching(values, count, middle);
    if (reaching == k) return least_reaching(values, count, middle);
    (reaching > k ? low : high) = middle;
  }
  uint32_t low_code = ordered(low), high_code = ordered(high);
  while (low_code < high_code) {
    const uint32_t middle = low_code + (high_code - low_code + 1) / 2;
    const int64_t reaching = count_reaching(values, count, from_ordered(middle));
    if (reaching == k) return least_reaching(values, count, from_ordered(middle));
    if (reaching > k) {
      low_code = middle;
    } else {
      high_code = middle - 1;
    }
  }
  return from_ordered(low_code);
}

template <Isa kIsa>
float ScreenScan<kIsa>::greatest(float* values, int64_t count) {
  return count == 0 ? -kInfinity : range_of(values, count).greatest;
}

template struct ScreenScan<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
