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

// A bit for each group with a hit.
uint32_t groups_with_hits(const uint16_t* hits) {
#if FOVEA_ISA >= 2
  const __m512i all = _mm512_loadu_si512(hits);
  return _mm512_test_epi16_mask(all, all);
#elif FOVEA_ISA == 1
  const __m256i none = _mm256_setzero_si256();
  const __m256i low = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i*)hits), none);
  const __m256i high = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i*)hits + 1), none);
  // The pack instruction works on halves of 128 bits, so the quarters are put in order afterwards.
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
  return ~static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
#else
  uint32_t groups = 0;
  for (int g = 0; g < kBlockGroups; ++g) groups |= (hits[g] != 0 ? 1U : 0U) << g;
  return groups;
#endif
}

// Loads scores straight from memory: a copy in between would be stored in halves and loaded whole, and the load waits.
template <bool kIntegers>
F scores_at(const uint32_t* p) {
  const I raw = load_int(reinterpret_cast<const int32_t*>(p));
  if constexpr (kIntegers) return to_float(raw);
  return as_float(raw);
}

template <bool kIntegers>
float score_of(uint32_t raw) {
  if constexpr (kIntegers) return static_cast<float>(static_cast<int32_t>(raw));
  float score;
  std::memcpy(&score, &raw, sizeof score);
  return score;
}

template <class Work>
decltype(auto) with_format(const ScreenedRow& row, Work&& work) {
  return row.integers ? work(std::true_type{}) : work(std::false_type{});
}

// The hits of a block whose keys are allowed.
struct Hits {
  uint16_t masks[kBlockGroups];
  uint32_t groups;  // a bit for each mask that is not zero
  int total = 0;

  explicit Hits(const ScreenedRow& row) {
    alignas(64) uint64_t words[kBlockKeys / 64];
    std::memcpy(words, row.hits, sizeof words);
    for (int w = 0; w < kBlockKeys / 64; ++w) {
      if (row.allowed != nullptr) words[w] &= row.allowed[w];
      total += __builtin_popcountll(words[w]);
    }
    std::memcpy(masks, words, sizeof masks);
    groups = groups_with_hits(masks);
  }
};

// Appends hits by whole groups of keys.
template <bool kIntegers>
int64_t append_groups(const ScreenedRow& row, const Hits& hits, float* bounds, int32_t* keys, int64_t count) {
  const F factor = set(row.factor), bound = set(-row.bound);
  for (uint32_t groups = hits.groups; groups != 0; groups &= groups - 1) {
    const int group = __builtin_ctz(groups);
    for (int lane = 0; lane < kGroupKeys; lane += kLanes) {
      const int at = group * kGroupKeys + lane;
      const uint32_t marked = (static_cast<uint32_t>(hits.masks[group]) >> lane) & ((1U << kLanes) - 1);
      compress_store(keys + count, marked, iota() + (row.first_key + at));
      count += compress_store(bounds + count, marked, fma(scores_at<kIntegers>(row.scores + at), factor, bound));
    }
  }
  return count;
}

// Appends hits one by one.
template <bool kIntegers>
int64_t append_hits(const ScreenedRow& row, const Hits& hits, float* bounds, int32_t* keys, int64_t count) {
  for (uint32_t groups = hits.groups; groups != 0; groups &= groups - 1) {
    const int first = __builtin_ctz(groups) * kGroupKeys;
    uint32_t marked = hits.masks[first / kGroupKeys];
    do {
      const int at = first + __builtin_ctz(marked);
      keys[count] = row.first_key + at;
      bounds[count++] = score_of<kIntegers>(row.scores[at]) * row.factor - row.bound;
      marked &= marked - 1;
    } while (marked != 0);
  }
  return count;
}

// Whether a group hardly ever has two hits: appending one by one is then faster, as the end of its loop is predicted.
bool are_scattered(const Hits& hits) {
  if constexpr (kLanes == kGroupKeys) return false;
  return hits.total * 8 <= __builtin_popcount(hits.groups) * 9;
}

template <bool kIntegers>
void sample_parts(const ScreenedRow& row, float* bounds) {
  const F factor = set(row.factor), bound = set(-row.bound);
  for (int part = 0; part < kSampled; part += kLanes) {
    F high = set(-kInfinity);
    for (int at = part; at < kBlockKeys; at += kSampled) high = max(high, scores_at<kIntegers>(row.scores + at));
    store(bounds + part, fma(high, factor, bound));
  }
}

template <bool kIntegers>
ScoreMoments moments_of(const ScreenedRow& row) {
  F total = set(0), squares = set(0);
  for (int at = 0; at < kBlockKeys; at += kLanes) {
    const F score = scores_at<kIntegers>(row.scores + at);
    total = total + score;
    squares = fma(score, score, squares);
  }
  const float mean = sum(total) / kBlockKeys, variance = sum(squares) / kBlockKeys - mean * mean;
  return {mean * row.factor, variance > 0 ? __builtin_sqrtf(variance) * row.factor : 0};
}

template <bool kIntegers>
void mark_hits(const ScreenedRow& row, float least, uint16_t* hits) {
  const F factor = set(row.factor), bound = set(-row.bound), limit = set(least);
  for (int group = 0; group < kBlockGroups; ++group) {
    uint32_t mask = 0;
    for (int lane = 0; lane < kGroupKeys; lane += kLanes) {
      const F score = scores_at<kIntegers>(row.scores + group * kGroupKeys + lane);
      mask |= bits(less_equal(limit, fma(score, factor, bound))) << lane;
    }
    hits[group] = static_cast<uint16_t>(mask);
  }
}

template <bool kIntegers>
void add_row_terms(const ScreenedRow& row, const ScreenedTerms& terms, float* scores, uint16_t* hits) {
  float added[kBlockKeys] = {};
  const ColumnRange all = {0, kBlockKeys};
  const ColumnOffsets offsets = {terms.first_offset, 1, nullptr};
  if (terms.by_head != nullptr) add_at_offsets(added, all, offsets, {terms.by_head, terms.by_head_range});
  if (terms.by_query != nullptr) add_at_offsets(added, all, offsets, {terms.by_query, terms.by_query_range});
  const F factor = set(row.factor), unit = set(terms.unit), limit = set(terms.least);
  for (int group = 0; group < kBlockGroups; ++group) {
    uint32_t mask = 0;
    for (int lane = 0; lane < kGroupKeys; lane += kLanes) {
      const int at = group * kGroupKeys + lane;
      const F sum = fma(scores_at<kIntegers>(row.scores + at), factor, load(added + at) * unit);
      store(scores + at, sum);
      mask |= bits(less_equal(limit, sum)) << lane;
    }
    hits[group] = static_cast<uint16_t>(mask);
  }
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
  const Hits hits(row);
  return with_format(row, [&](auto integers) {
    return are_scattered(hits) ? append_hits<integers.value>(row, hits, bounds, keys, count)
                               : append_groups<integers.value>(row, hits, bounds, keys, count);
  });
}

template <Isa kIsa>
void ScreenScan<kIsa>::sample(const ScreenedRow& row, float* bounds) {
  with_format(row, [&](auto integers) { sample_parts<integers.value>(row, bounds); });
}

template <Isa kIsa>
ScoreMoments ScreenScan<kIsa>::moments(const ScreenedRow& row) {
  return with_format(row, [&](auto integers) { return moments_of<integers.value>(row); });
}

template <Isa kIsa>
void ScreenScan<kIsa>::add_terms(const ScreenedRow& row, const ScreenedTerms& terms, float* scores, uint16_t* hits) {
  with_format(row, [&](auto integers) { add_row_terms<integers.value>(row, terms, scores, hits); });
}

template <Isa kIsa>
void ScreenScan<kIsa>::mark(const ScreenedRow& row, float least, uint16_t* hits) {
  with_format(row, [&](auto integers) { mark_hits<integers.value>(row, least, hits); });
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
