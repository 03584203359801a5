#pragma once
#include <arm_neon.h>

// simd-inl.h for 64-bit ARM.
namespace fovea::kernels {
namespace {

constexpr int kLanes = 4;
using F = float32x4_t;
using I = int32_t __attribute__((vector_size(16)));
using U = uint32_t __attribute__((vector_size(16)));
// All bits of a lane set or none.
struct M {
  uint32x4_t v;
};

inline F set(float x) { return vdupq_n_f32(x); }
inline F load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, F v) { vst1q_f32(p, v); }
inline I set_int(int32_t x) { return (I)vdupq_n_s32(x); }
inline U set_uint(uint32_t x) { return (U)vdupq_n_u32(x); }
inline I iota() { return I{0, 1, 2, 3}; }
inline M first(int64_t n) {
  const auto count = static_cast<int32_t>(n < 0 ? 0 : n > kLanes ? kLanes : n);
  return {vcgtq_s32(vdupq_n_s32(count), (int32x4_t)iota())};
}
inline F load_part(const float* p, int64_t n) {
  if (n >= kLanes) return load(p);
  F v = set(0);
  if (n > 0) v = vld1q_lane_f32(p, v, 0);
  if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
  if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
  return v;
}
inline void store_part(float* p, F v, int64_t n) {
  if (n >= kLanes) return store(p, v);
  if (n > 0) vst1q_lane_f32(p, v, 0);
  if (n > 1) vst1q_lane_f32(p + 1, v, 1);
  if (n > 2) vst1q_lane_f32(p + 2, v, 2);
}
inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
inline F fnma(F a, F b, F c) { return vfmsq_f32(c, a, b); }
// Not ARM's own, which give NaN or the number if either is NaN: as on x86, the result is then the second operand.
inline F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline F round(F a) { return vrndnq_f32(a); }
inline F sqrt(F a) { return vsqrtq_f32(a); }
inline F abs(F a) { return vabsq_f32(a); }

inline M less(F a, F b) { return {vcltq_f32(a, b)}; }
inline M less_equal(F a, F b) { return {vcleq_f32(a, b)}; }
inline M is_nan(F a) { return {vmvnq_u32(vceqq_f32(a, a))}; }
inline M less(U a, U b) { return {vcltq_u32((uint32x4_t)a, (uint32x4_t)b)}; }
inline M both(M a, M b) { return {vandq_u32(a.v, b.v)}; }
inline M either(M a, M b) { return {vorrq_u32(a.v, b.v)}; }
inline uint32_t bits(M m) { return vaddvq_u32(vandq_u32(m.v, (uint32x4_t)U{1, 2, 4, 8})); }
inline F select(M m, F yes, F no) { return vbslq_f32(m.v, yes, no); }

inline I to_int(F a) { return (I)vcvtnq_s32_f32(a); }
inline F to_float(I a) { return vcvtq_f32_s32((int32x4_t)a); }
inline I as_int(F a) { return (I)a; }
inline F as_float(I a) { return (F)a; }
inline I load_int(const int32_t* p) { return (I)vld1q_s32(p); }
inline void store_int(int32_t* p, I v) { vst1q_s32(p, (int32x4_t)v); }

// For every set of lanes the bytes of its lanes, in order: what tbl needs to bring them to the front.
struct FrontBytes {
  uint8_t of[16][16] = {};
  constexpr FrontBytes() {
    for (int set = 0; set < 16; ++set) {
      int count = 0;
      for (int byte = 0; byte < 16; ++byte) {
        if ((set >> (byte / 4) & 1) != 0) of[set][count++] = static_cast<uint8_t>(byte);
      }
    }
  }
};
inline constexpr FrontBytes kFrontBytes;

// The lanes of bits `b`, in order, to p[0 ...]; returns how many. May write up to p + kLanes.
inline int compress_store(int32_t* p, uint32_t b, I v) {
  store_int(p, (I)vqtbl1q_u8((uint8x16_t)v, vld1q_u8(kFrontBytes.of[b])));
  return __builtin_popcount(b);
}
inline int compress_store(float* p, uint32_t b, F v) {
  return compress_store(reinterpret_cast<int32_t*>(p), b, as_int(v));
}

inline float sum(F v) { return vaddvq_f32(v); }
// The sums of four vectors, times factor, to out[0 ... 3].
inline void sums(F a, F b, F c, F d, float factor, float* out) {
  store(out, vmulq_n_f32(vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)), factor));
}
// NaN in any lane gives NaN or the greatest of the others.
inline float greatest(F v) { return vmaxvq_f32(v); }

inline F load_bf16(const uint16_t* p) { return (F)vshll_n_u16(vld1_u16(p), 16); }
// To the nearest, ties to even; NaN stays NaN.
inline void store_bf16(uint16_t* p, F v) {
  const U x = (U)v;
  const U rounded = x + 0x7fffU + ((x >> 16) & 1U);
  const F kept = select(is_nan(v), (F)set_uint(0x7fc00000U), (F)rounded);
  vst1_u16(p, vshrn_n_u32((uint32x4_t)kept, 16));
}

// 2^n times a, n whole in [-252, 254]; right below the normal range too: two factors, each a normal number.
inline F scale_by_power(F a, F n) {
  const I whole = to_int(min(max(n, set(-252.0F)), set(254.0F)));
  const I half = whole >> 1;
  return a * as_float((half + 127) << 23) * as_float((whole - half + 127) << 23);
}
// a = m 2^e, m in [1, 2), for positive normal a.
inline F mantissa(F a) { return as_float((as_int(a) & 0x007fffff) | 0x3f800000); }
inline F exponent(F a) { return to_float((as_int(a) >> 23) - 127); }

// Products that ARM has and other processors lack. Instructions as they are where a word is multiplied with all lanes:
// around intrinsics, GCC 12 loads all words before it needs them, and leaves sums in memory for that. clang declares
// the intrinsics of sdot only where the whole file is compiled for it.

// sum + v x, fused.
inline F add_scaled(F v, float x, F sum) {
  asm("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum) : "w"(v), "w"(x));
  return sum;
}

// In each lane: sum + the products of four signed bytes of a with those of b, or of `word`, whatever its type. No byte
// may be -128: two products then fit in 16 bits.
#if FOVEA_ISA >= 7
inline I add_products(I a, I b, I sum) {
  asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}
inline I add_word_products(I a, float word, I sum) {
  asm("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(a), "w"(word));
  return sum;
}
#else
inline I add_products(I a, I b, I sum) {
  const int8x16_t x = (int8x16_t)a, y = (int8x16_t)b;
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
  return (I)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low, high));
}
inline I add_word_products(I a, float word, I sum) { return add_products(a, as_int(set(word)), sum); }
#endif

#if FOVEA_ISA == 8
// In each lane: sum + (the products of the two bfloat16 of v with those of `word`). Both additions round to the odd of
// two neighbours, which errs by less than a unit of the last place; numbers and sums below the normal range are zero.
inline F add_pair_products(F v, float word, F sum) {
  asm("bfdot %0.4s, %1.8h, %2.2h[0]" : "+w"(sum) : "w"(v), "w"(word));
  return sum;
}
#endif

}  // namespace
}  // namespace fovea::kernels
