#pragma once
#include "fovea/kernels/simd/simd-inl.h"

// Small dense products on registers. Every element is one chain of multiply-adds over the depth in ascending order
// (fused ones, or those of pairs of bfloat16), starting at zero and scaled last: a score has the same bits whichever
// tile or pass computes it.
namespace fovea::kernels {
namespace {

// Vectors of a tile's row; with its height it fills the registers.
constexpr int kMaxVecs = kManyRegisters ? 4 : 2;
constexpr int kPanel = kMaxVecs * kLanes;  // keys of a packed panel
constexpr int tile_rows(int vecs) {
  if (kManyRegisters) return vecs <= 2 ? 12 : vecs == 3 ? 8 : 6;
  return vecs == 1 ? 8 : 6;
}

// Rows of a product of which parts are left out, taken together: whole tiles at all levels.
constexpr int64_t kRowStep = 24;
static_assert(kRowStep % tile_rows(1) == 0 && kRowStep % tile_rows(kMaxVecs) == 0);

// C[r][n] = factor[r] sum_k A[r][k] B[k][n] (+ C[r][n]), n a whole number of vectors.
struct Product {
  const float* a = nullptr;  // A[r][k] at a[r * a_row + k * a_step]
  int64_t a_row = 0, a_step = 1;
  const float* b = nullptr;  // B[k][n] at b[k * b_step + n]
  int64_t b_step = 0;
  float* c = nullptr;
  int64_t c_row = 0;
  int64_t depth = 0;
  const float* factor = nullptr;
  int64_t factor_step = 0;  // 0: one factor for all rows
  bool add = false;
};

// The content of a word of A and of B: a number, or two of bfloat16 (on processors that multiply them so), A[r][2 k]
// and A[r][2 k + 1], whose products both enter the sum. With kBf16, numbers and sums below the normal range are zero.
enum class Words { kFloats, kBf16 };

// A word of A in all lanes, or alone where products take it so.
#if FOVEA_NEON
using LeftWord = float;
inline LeftWord left_word(const float* p) { return *p; }
#else
using LeftWord = F;
inline LeftWord left_word(const float* p) { return set(*p); }
#endif

template <Words kWords>
[[gnu::always_inline]] inline F add_product(LeftWord left, F right, F total) {
#if FOVEA_NEON
#if FOVEA_ISA == 8
  if constexpr (kWords == Words::kBf16) return add_pair_products(right, left, total);
#endif
  return add_scaled(right, left, total);
#elif FOVEA_ISA == 3
  // In place of its intrinsic, around which GCC 12 copies sums.
  if constexpr (kWords == Words::kBf16) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(total) : "v"(right), "v"(left));
    return total;
  }
#endif
#if !FOVEA_NEON
  return fma(left, right, total);
#endif
}

template <Words kWords, int kRows, int kVecs>
[[gnu::noinline]] void tile(const Product& p, int64_t row, int64_t column) {
  // Rows in threes: base, base + s, base + 2 s need one register of stride and one a base.
  constexpr int kBases = (kRows + 2) / 3;
  const char* bases[kBases];
  const int64_t stride = p.a_row * static_cast<int64_t>(sizeof(float));
  const int64_t step = p.a_step * static_cast<int64_t>(sizeof(float));
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) bases[i] = reinterpret_cast<const char*>(p.a) + (row + 3 * i) * stride;
  const float* b = p.b + column;
  const int64_t b_step = p.b_step;
  F sums[kRows][kVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sums[r][v] = set(0);
  }
  for (int64_t k = p.depth; k > 0; --k) {
    F right[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) right[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const LeftWord left = left_word(reinterpret_cast<const float*>(bases[r / 3] + (r % 3) * stride));
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums[r][v] = add_product<kWords>(left, right[v], sums[r][v]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) bases[i] += step;
    b += b_step;
  }
  float* c = p.c + row * p.c_row + column;
  const float* factor = p.factor + row * p.factor_step;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const F scale = set(*factor);
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      F value = sums[r][v] * scale;
      if (p.add) value = value + load(c + v * kLanes);
      store(c + v * kLanes, value);
    }
    c += p.c_row;
    factor += p.factor_step;
  }
}

// The tiles of 1 ... tile_rows(kVecs) rows.
template <Words kWords, int kVecs, int... kHeights>
constexpr auto tiles_of(std::integer_sequence<int, kHeights...>) {
  return std::array{&tile<kWords, kHeights + 1, kVecs>...};
}

template <Words kWords, int kVecs>
void multiply_columns(const Product& p, int64_t rows, int64_t column) {
  constexpr int kFull = tile_rows(kVecs);
  static constexpr auto kTiles = tiles_of<kWords, kVecs>(std::make_integer_sequence<int, kFull>());
  int64_t row = 0;
  for (; row + kFull <= rows; row += kFull) tile<kWords, kFull, kVecs>(p, row, column);
  if (row < rows) kTiles[static_cast<size_t>(rows - row - 1)](p, row, column);
}

// All rows by `vecs` vectors of columns.
template <Words kWords = Words::kFloats>
void multiply(const Product& p, int64_t rows, int64_t vecs) {
  int64_t column = 0;
  for (; vecs >= kMaxVecs; vecs -= kMaxVecs, column += kPanel) multiply_columns<kWords, kMaxVecs>(p, rows, column);
  if constexpr (kMaxVecs > 2) {
    if (vecs == 3) multiply_columns<kWords, 3>(p, rows, column);
    if (vecs == 2) multiply_columns<kWords, 2>(p, rows, column);
  }
  if (vecs == 1) multiply_columns<kWords, 1>(p, rows, column);
}

}  // namespace
}  // namespace fovea::kernels
