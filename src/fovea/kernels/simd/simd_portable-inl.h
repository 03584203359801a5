#pragma once

// simd-inl.h in the compiler's generic vectors: of four lanes for SSE2 and whatever else it knows; of sixteen
// beside emulated tiles, whose rows they then are, as those of AVX-512 are beside real ones.
namespace fovea::kernels {
namespace {

#if defined(FOVEA_TILES)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 4;
#endif
using F = float __attribute__((vector_size(4 * kLanes)));
using I = int32_t __attribute__((vector_size(4 * kLanes)));
using U = uint32_t __attribute__((vector_size(4 * kLanes)));
// All bits of a lane set or none.
struct M {
  I v;
};

template <class V, class T>
inline V filled(T x) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = x;
  return v;
}
inline F set(float x) { return filled<F>(x); }
inline F load(const float* p) {
  F v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
inline I set_int(int32_t x) { return filled<I>(x); }
inline U set_uint(uint32_t x) { return filled<U>(x); }
inline I iota() {
  I v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}
inline M first(int64_t n) { return {set_int(static_cast<int32_t>(n < kLanes ? n : kLanes)) > iota()}; }
inline F load_part(const float* p, int64_t n) {
  F v = set(0);
  for (int i = 0; i < kLanes && i < n; ++i) v[i] = p[i];
  return v;
}
inline void store_part(float* p, F v, int64_t n) {
  for (int i = 0; i < kLanes && i < n; ++i) p[i] = v[i];
}
inline F fma(F a, F b, F c) { return a * b + c; }
inline F fnma(F a, F b, F c) { return c - a * b; }
// Like on x86, the result is the second operand if either is NaN.
inline F max(F a, F b) { return a > b ? a : b; }
inline F min(F a, F b) { return a < b ? a : b; }
inline F round(F a) {
  const F magic = set(0x1.8p23F);  // adding it leaves no bits behind the point; |a| < 2^22 here
  const F rounded = a + magic;
  return rounded - magic;
}
inline F sqrt(F a) {
  for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
inline F abs(F a) { return (F)((I)a & 0x7fffffff); }

inline M less(F a, F b) { return {a < b}; }
inline M less_equal(F a, F b) { return {a <= b}; }
inline M is_nan(F a) { return {a != a}; }
inline M less(U a, U b) { return {(I)(a < b)}; }
inline M both(M a, M b) { return {a.v & b.v}; }
inline M either(M a, M b) { return {a.v | b.v}; }
inline uint32_t bits(M m) {
  uint32_t b = 0;
  for (int i = 0; i < kLanes; ++i) b |= (static_cast<uint32_t>(m.v[i]) & 1U) << i;
  return b;
}
inline F select(M m, F yes, F no) { return m.v ? yes : no; }

inline I to_int(F a) {
  I v;
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<int32_t>(a[i]);
  return v;
}
inline F to_float(I a) { return __builtin_convertvector(a, F); }
inline I as_int(F a) { return (I)a; }
inline F as_float(I a) { return (F)a; }
inline I load_int(const int32_t* p) {
  I v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store_int(int32_t* p, I v) { std::memcpy(p, &v, sizeof v); }

// The lanes of bits `b`, in order, to p[0 ...]; returns how many. May write up to p + kLanes.
inline int compress_store(float* p, uint32_t b, F v) {
  int count = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((b >> i & 1U) != 0) p[count++] = v[i];
  }
  return count;
}
inline int compress_store(int32_t* p, uint32_t b, I v) {
  int count = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((b >> i & 1U) != 0) p[count++] = v[i];
  }
  return count;
}

inline float sum(F v) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}
// The sums of four vectors, times factor, to out[0 ... 3].
inline void sums(F a, F b, F c, F d, float factor, float* out) {
  out[0] = sum(a) * factor, out[1] = sum(b) * factor, out[2] = sum(c) * factor, out[3] = sum(d) * factor;
}
// NaN in any lane gives NaN or the greatest of the others.
inline float greatest(F v) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  }
  return v[0];
}

inline F load_bf16(const uint16_t* p) {
  U wide;
  for (int i = 0; i < kLanes; ++i) wide[i] = p[i];
  return (F)(wide << 16);
}
// To the nearest, ties to even; NaN stays NaN.
inline void store_bf16(uint16_t* p, F v) {
  const U x = (U)v;
  const U rounded = (x + 0x7fffU + ((x >> 16) & 1U)) >> 16;
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint16_t>(v[i] == v[i] ? rounded[i] : 0x7fc0U);
}

// 2^n times a, n whole; right below the normal range too: two factors, each a normal number.
inline F scale_by_power(F a, F n) {
  const I whole = to_int(min(max(n, set(-252.0F)), set(254.0F)));
  const I half = whole >> 1;
  return a * as_float((half + 127) << 23) * as_float((whole - half + 127) << 23);
}
// a = m 2^e, m in [1, 2), for positive normal a.
inline F mantissa(F a) { return as_float((as_int(a) & 0x007fffff) | 0x3f800000); }
inline F exponent(F a) { return to_float((as_int(a) >> 23) - 127); }

}  // namespace
}  // namespace fovea::kernels
