#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/narrow_rows.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/simd/simd-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

inline F load_bytes(const int8_t* p) {
#if FOVEA_AVX512
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
#elif FOVEA_ISA == 1
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#elif FOVEA_NEON
  int8_t eight[8] = {};
  std::memcpy(eight, p, kLanes);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(eight)))));
#else
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}
inline F load_numbers(const float* p) { return load(p); }
inline F load_numbers(const uint16_t* p) { return load_bf16(p); }
inline F load_numbers(const int8_t* p) { return load_bytes(p); }

// Lanes i ... of a row of `width` numbers, zeros behind them.
template <class N>
inline F load_lanes(const N* row, int64_t i, int64_t width) {
  if (i + kLanes <= width) return load_numbers(row + i);
  N lanes[kLanes] = {};
  std::memcpy(lanes, row + i, static_cast<size_t>(width - i) * sizeof(N));
  return load_numbers(lanes);
}

// One row of floats or bfloat16, zeros behind it up to whole vectors.
inline void read_row(const void* data, DType dtype, int64_t at, int64_t width, float* out) {
  for (int64_t i = 0; i < width; i += kLanes) {
    if (dtype == DType::kBFloat16) {
      store(out + i, load_lanes(static_cast<const uint16_t*>(data) + at, i, width));
    } else {
      store(out + i, load_part(static_cast<const float*>(data) + at + i, width - i));
    }
  }
}

inline void write_row(void* data, DType dtype, int64_t at, int64_t width, const float* from) {
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t n = std::min<int64_t>(kLanes, width - i);
    if (dtype == DType::kBFloat16) {
      uint16_t lanes[kLanes];
      store_bf16(lanes, load(from + i));
      std::memcpy(static_cast<uint16_t*>(data) + at + i, lanes, static_cast<size_t>(n) * sizeof *lanes);
    } else {
      std::memcpy(static_cast<float*>(data) + at + i, from + i, static_cast<size_t>(n) * sizeof *from);
    }
  }
}

// The greatest |x|; NaN if a number is not finite.
inline float top_of(const float* x, int64_t width) {
  float top = 0;
  for (int64_t i = 0; i < width; ++i) {
    if (!std::isfinite(x[i])) return std::nanf("");
    top = std::max(top, std::abs(x[i]));
  }
  return top;
}

inline float write_bytes(const float* x, int64_t width, int8_t* out) {
  const float top = top_of(x, width), step = top / 127;
  // Numbers so small that the step is not normal count as zeros.
  const float inverse = step >= 0x1p-126F ? 1 / step : 0;
  for (int64_t i = 0; i < width; ++i) {
    const float unit = std::nearbyint(std::clamp(x[i] * inverse, -127.0F, 127.0F));
    out[i] = static_cast<int8_t>(std::isfinite(unit) ? unit : 0);
  }
  return inverse > 0 || std::isnan(top) ? step : 0;
}

inline int64_t query_of(const NarrowStep& step, int64_t row) {
  return step.queries == nullptr ? row : step.queries[row];
}

// One head of a narrow array, from a sequence's first token on.
template <class N>
struct HeadTokens {
  // places: of the tokens from `token` on, or null if they follow one another.
  HeadTokens(const NarrowRows& rows, int64_t head, int64_t token, const int64_t* places)
      : data(static_cast<const N*>(rows.data.data) + head * rows.data.head_stride),
        stride(rows.data.token_stride),
        steps(rows.steps.data == nullptr ? nullptr : rows.steps.data + head * rows.steps.head_stride),
        step_stride(rows.steps.token_stride),
        first(token),
        listed(places == nullptr ? nullptr : places + token) {}
  int64_t place(int64_t token) const { return listed != nullptr ? listed[token] : first + token; }
  const N* row(int64_t token) const { return data + place(token) * stride; }
  float step(int64_t token) const { return sizeof(N) == 1 ? steps[place(token) * step_stride] : 1; }
  const N* data;
  int64_t stride;
  const float* steps;
  int64_t step_stride, first;
  const int64_t* listed;
};

// scores[0, keys), and rubbish behind up to a multiple of four. kVectors: of a row, or 0 for any number.
template <int kVectors, class N>
void score_keys(const float* query, const HeadTokens<N>& keys, int64_t count, int64_t width, float scale,
                float* scores) {
  const int64_t vectors = kVectors > 0 ? kVectors : whole_vectors(width) / kLanes;
  for (int64_t c = 0; c < count; c += 4) {
    const N* rows[4];
    for (int r = 0; r < 4; ++r) rows[r] = keys.row(std::min(c + r, count - 1));
    F total[4] = {set(0), set(0), set(0), set(0)};
    for (int64_t v = 0; v < vectors; ++v) {
      const F q = load(query + v * kLanes);
      for (int r = 0; r < 4; ++r) {
        const F key = kVectors > 0 ? load_numbers(rows[r] + v * kLanes) : load_lanes(rows[r], v * kLanes, width);
        total[r] = fma(q, key, total[r]);
      }
    }
    sums(total[0], total[1], total[2], total[3], scale, scores + c);
  }
  if constexpr (sizeof(N) == 1) {
    for (int64_t c = 0; c < count; ++c) scores[c] *= keys.step(c);
  }
}

// Scores to weights e^(score - greatest), [count] and zeros up to whole vectors. Returns the greatest and the sum.
struct Weights {
  float greatest, sum;
};
inline Weights weigh(float* s, int64_t count) {
  const int64_t whole = whole_vectors(count);
  for (int64_t c = count; c < whole; ++c) s[c] = -INFINITY;
  F most = set(-INFINITY);
  uint32_t nans = 0;
  for (int64_t c = 0; c < whole; c += kLanes) {
    most = max(most, load(s + c));
    nans |= bits(is_nan(load(s + c)));
  }
  const float top = greatest(most);
  F total = set(0);
  for (int64_t c = 0; c < whole; c += kLanes) {
    const F e = exp_below_one(load(s + c) - set(top));
    total = total + e;
    store(s + c, e);
  }
  return {top, nans != 0 ? std::nanf("") : kernels::sum(total)};
}

// out[i] = sum_c weights[c] V[c][i], even and odd columns apart.
template <int kVectors, class N>
void mix_values(const float* weights, const HeadTokens<N>& values, int64_t count, int64_t width, float* out) {
  constexpr int kWide = kVectors > 0 ? kVectors : 4;
  for (int64_t at = 0; at < width; at += kWide * kLanes) {
    const auto vectors =
        kVectors > 0 ? kVectors : static_cast<int>(std::min<int64_t>(kWide, (whole_vectors(width) - at) / kLanes));
    F even[kWide], odd[kWide];
    for (int v = 0; v < kWide; ++v) even[v] = odd[v] = set(0);
    const auto add = [&](int64_t c, F* to) {
      const N* row = values.row(c);
      const F weight = set(weights[c] * values.step(c));
      for (int v = 0; v < vectors; ++v) {
        const int64_t i = at + v * kLanes;
        to[v] = fma(weight, kVectors > 0 ? load_numbers(row + i) : load_lanes(row, i, width), to[v]);
      }
    };
    for (int64_t c = 0; c + 2 <= count; c += 2) {
      add(c, even), add(c + 1, odd);
    }
    if (count % 2 != 0) add(count - 1, even);
    for (int v = 0; v < vectors; ++v) store(out + at + v * kLanes, even[v] + odd[v]);
  }
}

template <int kVectors, class N>
void attend_part(const NarrowStep& step, const NarrowPart& part) {
  alignas(64) float query[kMaxNarrowHeadDim], scores[kNarrowPartKeys + 16];
  const int64_t first = step.begins[part.row] + part.begin, width = step.head_dim;
  const HeadTokens<N> keys(step.keys, part.key_head, first, step.places),
      values(step.values, part.key_head, first, step.places);
  float* results = part.results;
  for (int64_t i = 0; i < step.share; ++i, results += narrow_result_floats(width)) {
    const int64_t head = part.key_head * step.share + i;
    read_row(step.q.data, step.dtype, query_of(step, part.row) * step.q.token_stride + head * step.q.head_stride, width,
             query);
    score_keys<kVectors>(query, keys, part.count, width, step.scale, scores);
    const Weights weights = weigh(scores, part.count);
    results[0] = weights.greatest, results[1] = weights.sum;
    mix_values<kVectors>(scores, values, part.count, width, results + 16);
  }
}

template <class N>
void attend_rows(const NarrowStep& step, const NarrowPart& part) {
  if (step.head_dim == 4 * kLanes) return attend_part<4, N>(step, part);
  if (step.head_dim == 2 * kLanes) return attend_part<2, N>(step, part);
  attend_part<0, N>(step, part);
}

}  // namespace

template <Isa kIsa>
void NarrowRowsKernel<kIsa>::pack(const NarrowPack& pack, int64_t head) {
  alignas(64) float row[kMaxNarrowHeadDim];
  for (int64_t t = 0; t < pack.count; ++t) {
    const int64_t token = pack.tokens == nullptr ? pack.first + t : pack.tokens[t];
    const int64_t to = token * pack.to.data.token_stride + head * pack.to.data.head_stride;
    read_row(pack.rows.data, pack.dtype, t * pack.rows.token_stride + head * pack.rows.head_stride, pack.head_dim, row);
    if (pack.to.type == NarrowType::kBFloat16) {
      write_row(pack.to.data.data, DType::kBFloat16, to, pack.head_dim, row);
    } else {
      const Rows<float>& steps = pack.to.steps;
      steps.data[token * steps.token_stride + head * steps.head_stride] =
          write_bytes(row, pack.head_dim, static_cast<int8_t*>(pack.to.data.data) + to);
    }
  }
}

template <Isa kIsa>
void NarrowRowsKernel<kIsa>::attend(const NarrowStep& step, const NarrowPart& part) {
  if (step.keys.type == NarrowType::kFloat32) return attend_rows<float>(step, part);
  if (step.keys.type == NarrowType::kBFloat16) return attend_rows<uint16_t>(step, part);
  attend_rows<int8_t>(step, part);
}

template <Isa kIsa>
bool NarrowRowsKernel<kIsa>::join(const NarrowStep& step, int64_t row, int64_t head, const float* results,
                                  int64_t parts, int64_t stride) {
  alignas(64) float out[kMaxNarrowHeadDim] = {};
  const int64_t width = step.head_dim;
  float most = -INFINITY, total = 0;
  for (int64_t p = 0; p < parts; ++p) most = std::max(most, results[p * stride]);
  for (int64_t p = 0; p < parts; ++p) {
    const float* part = results + p * stride;
    const float factor = std::exp(part[0] - most);
    total += factor * part[1];
    for (int64_t i = 0; i < width; i += kLanes) store(out + i, fma(set(factor), load(part + 16 + i), load(out + i)));
  }
  const float inverse = parts == 0 ? 0 : 1 / total;
  F zeros = set(0);  // stays zero if all numbers are finite, and becomes NaN otherwise
  for (int64_t i = 0; i < width; i += kLanes) {
    const F mean = load(out + i) * set(inverse);
    zeros = fma(mean, set(0), zeros);
    store(out + i, mean);
  }
  write_row(step.out.data, step.dtype, query_of(step, row) * step.out.token_stride + head * step.out.head_stride, width,
            out);
  return sum(zeros) == 0;
}

template struct NarrowRowsKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
