#include "fovea/kernels/attention/cpu/key_screen.h"

#include <algorithm>
#include <variant>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fovea::kernels {

// Sums of bytes by VNNI, with the instruction sets switched on for these functions alone.
#if defined(__x86_64__)
namespace {

#define FOVEA_SCREEN __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"), always_inline)) inline

// Sums of neighbouring blocks, pairs of lanes and lanes of two vectors; after four of these steps over 16 vectors each
// lane has the sum of one of them.
FOVEA_SCREEN __m512i halves(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
}
FOVEA_SCREEN __m512i quarters(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}
FOVEA_SCREEN __m512i eighths(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}
FOVEA_SCREEN __m512i sixteenths(__m512i a, __m512i b) {
  const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
  return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)),
                          _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
}

// kHalf: a row ends with 32 bytes.
template <bool kHalf>
FOVEA_SCREEN __m512i row_sums(const uint8_t* row, const int8_t* query, int64_t bytes) {
  __m512i total = _mm512_setzero_si512();
  int64_t i = 0;
  for (; i + 64 <= bytes; i += 64) {
    total = _mm512_dpbusd_epi32(total, _mm512_loadu_si512(row + i), _mm512_loadu_si512(query + i));
  }
  if constexpr (kHalf) {
    const __m256i tail = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i));
    const __m256i of_query = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + i));
    total = _mm512_dpbusd_epi32(total, _mm512_zextsi256_si512(tail), _mm512_zextsi256_si512(of_query));
  }
  return total;
}

// Rows i, i + 4, i + 8 and i + 12 of sixteen, one to a block of four lanes.
template <bool kHalf>
FOVEA_SCREEN __m512i four_sums(const uint8_t* const* rows, const int8_t* query, int64_t bytes) {
  const __m512i a = row_sums<kHalf>(rows[0], query, bytes), b = row_sums<kHalf>(rows[4], query, bytes);
  const __m512i c = row_sums<kHalf>(rows[8], query, bytes), d = row_sums<kHalf>(rows[12], query, bytes);
  return quarters(halves(a, b), halves(c, d));
}

template <bool kHalf>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))) void sums(const KeyScreenProduct& p) {
  constexpr int64_t kAhead = 32;  // rows that a list names lie anywhere
  int32_t start = 0;
  for (int64_t i = 0; i < p.bytes; ++i) start -= 128 * p.query[i];
  const __m512i begin = _mm512_set1_epi32(start);
  for (int64_t i = 0; i < p.count; i += 16) {
    const uint8_t* rows[16];
    for (int64_t r = 0; r < 16; ++r) {
      const int64_t at = i + r < p.count ? i + r : p.count - 1;
      rows[r] = p.rows + (p.tokens == nullptr ? p.first + at : p.tokens[at]) * p.stride;
      if (p.tokens != nullptr && at + kAhead < p.count) __builtin_prefetch(p.rows + p.tokens[at + kAhead] * p.stride);
    }
    const __m512i a = four_sums<kHalf>(rows, p.query, p.bytes), b = four_sums<kHalf>(rows + 1, p.query, p.bytes);
    const __m512i c = four_sums<kHalf>(rows + 2, p.query, p.bytes), d = four_sums<kHalf>(rows + 3, p.query, p.bytes);
    const __m512i all = sixteenths(eighths(a, b), eighths(c, d));
    _mm512_storeu_si512(p.sums + i, _mm512_add_epi32(all, begin));
  }
}

#undef FOVEA_SCREEN

}  // namespace

void key_screen_sums_int8(const KeyScreenProduct& p) { p.bytes % 64 == 0 ? sums<false>(p) : sums<true>(p); }

#endif

bool reads_key_screen(const AttentionSpec& spec) {
  if (spec.cap || spec.top_k() == nullptr || spec.keep || spec.blocks() != nullptr || !spec.pairs().is_full())
    return false;
  return !std::holds_alternative<Sparsemax>(spec.transform) && !std::holds_alternative<Entmax>(spec.transform);
}

KeyScreenSums key_screen_sums() {
#if defined(__x86_64__)
  if (has_int8_product()) return &key_screen_sums_int8;
#endif
  return with_isa([](auto tag) -> KeyScreenSums { return &KeyScreenRows<decltype(tag)::kIsa>::sums; });
}

void pack_key_screen(const KeyScreenCall& call, Executor& executor) {
  constexpr int64_t kRowsOfTask = 256;
  const bool is_bf16 = call.dtype == DType::kBFloat16;
  const auto of_head = [&](int64_t head) {
    const int64_t element = is_bf16 ? 2 : 4;
    return KeyScreenPack{.keys = static_cast<const char*>(call.keys.data) + head * call.keys.head_stride * element,
                         .stride = call.keys.token_stride,
                         .is_bf16 = is_bf16,
                         .head_dim = call.head_dim,
                         .centre = call.centre.data + head * call.centre.head_stride,
                         .rows = call.rows.data + head * call.rows.head_stride,
                         .row_stride = call.rows.token_stride,
                         .steps = call.steps.data + head * call.steps.head_stride,
                         .extents = call.extents + head * kKeyScreenExtents};
  };
  const auto pack = [&](int64_t head) {
    with_isa([&](auto tag) {
      KeyScreenRows<decltype(tag)::kIsa>::pack(of_head(head), call.tokens, call.first, call.count);
    });
  };
  if (call.count * call.num_heads <= kRowsOfTask) {  // a step of decoding: starting threads takes longer
    for (int64_t head = 0; head < call.num_heads; ++head) pack(head);
    return;
  }
  executor.run(call.num_heads, [&](int64_t head, int) { pack(head); });
}

}  // namespace fovea::kernels
