#pragma once
#include "fovea/kernels/attention/cpu/pack-inl.h"
#include "fovea/kernels/simd/tiles-inl.h"

// Products by tiles for attention, at the levels that have them, and their factors. Rows of bfloat16 go as they lie;
// floats, as weights are, as the sum of two numbers of bfloat16, which holds 16 of their 24 bits.
namespace fovea::kernels {
namespace {

constexpr int64_t kTileFloats = kTileSide * kTileSide;
constexpr int64_t kTilePairs = 2 * kTileSide;  // numbers of bfloat16 in a tile's row
constexpr int64_t tiles_of(int64_t count) { return (count + kTileSide - 1) / kTileSide; }

// A factor in words of two neighbours along the depth. Left: tiles of 16 rows, the words of a row side by side. Right:
// tiles of 16 columns, the columns' words of one depth side by side.
struct TileFactor {
  const float* data = nullptr;
  int64_t row = 0;     // floats between rows of a tile
  int64_t along = 0;   // to the next tile along the depth
  int64_t across = 0;  // to the next tile of rows or of columns
  int64_t second = 0;  // to the second numbers, where there are two
};

// C [16 high][16 wide], += or =.
struct TiledProduct {
  TileFactor left, right;
  float* c = nullptr;
  int64_t c_row = 0;
  int64_t high = 0, wide = 0, deep = 0;  // in tiles
  bool add = false;
};

// The factor that comes in two numbers.
enum class Split : uint8_t { kNone, kLeft, kRight };

// Distances of a product in bytes, in registers: what tiles write might be any object in memory to the compiler.
struct TileSteps {
  int64_t left_row, left_across, right_row, right_across;
};

// One step of depth; a factor that is not new stays in its tiles.
template <int kTall, int kWide, bool kNewLeft, bool kNewRight>
[[gnu::always_inline]] inline void add_step(const char* left, const char* right, TileSteps steps) {
  if constexpr (kNewLeft) load_tile<4>(left, steps.left_row);
  if constexpr (kNewRight) load_tile<6>(right, steps.right_row);
  multiply_bf16_tiles<0, 4, 6>();
  if constexpr (kWide == 2) {
    if constexpr (kNewRight) load_tile<7>(right + steps.right_across, steps.right_row);
    multiply_bf16_tiles<1, 4, 7>();
  }
  if constexpr (kTall == 2) {
    if constexpr (kNewLeft) load_tile<5>(left + steps.left_across, steps.left_row);
    multiply_bf16_tiles<2, 5, 6>();
    if constexpr (kWide == 2) multiply_bf16_tiles<3, 5, 7>();
  }
}

template <Split kSplit, int kTall, int kWide>
inline void multiply_some(const TiledProduct& p, int64_t row, int64_t column) {
  float* c = p.c + row * kTileSide * p.c_row + column * kTileSide;
  const int64_t c_row = p.c_row;
  const char* left = reinterpret_cast<const char*>(p.left.data + row * p.left.across);
  const char* right = reinterpret_cast<const char*>(p.right.data + column * p.right.across);
  const TileSteps steps{p.left.row * 4, p.left.across * 4, p.right.row * 4, p.right.across * 4};
  const int64_t left_along = p.left.along * 4, right_along = p.right.along * 4;
  const int64_t second = 4 * (kSplit == Split::kLeft ? p.left.second : p.right.second);
  if (p.add) {
    load_sums<kTall, kWide>(c, c_row);
  } else {
    zero_tile<0>(), zero_tile<1>(), zero_tile<2>(), zero_tile<3>();
  }
  for (int64_t k = p.deep; k > 0; --k, left += left_along, right += right_along) {
    add_step<kTall, kWide, true, true>(left, right, steps);
    if constexpr (kSplit == Split::kLeft) add_step<kTall, kWide, true, false>(left + second, right, steps);
    if constexpr (kSplit == Split::kRight) add_step<kTall, kWide, false, true>(left, right + second, steps);
  }
  store_sums<kTall, kWide>(c, c_row);
}

// In a TileSession.
template <Split kSplit>
inline void multiply_by_tiles(const TiledProduct& p) {
  for (int64_t column = 0; column < p.wide; column += 2) {
    const bool two = column + 1 < p.wide;
    int64_t row = 0;
    for (; row + 2 <= p.high; row += 2) {
      two ? multiply_some<kSplit, 2, 2>(p, row, column) : multiply_some<kSplit, 2, 1>(p, row, column);
    }
    if (row == p.high) continue;
    two ? multiply_some<kSplit, 1, 2>(p, row, column) : multiply_some<kSplit, 1, 1>(p, row, column);
  }
}

// ---- factors out of rows of bfloat16, one head's ----

// Some tokens of an array, under one head.
struct TileRows {
  HeadRows rows;
  TokenList at;
  int64_t tokens = 0, width = 0;
};
inline HeadRows as_words(HeadRows rows) {
  rows.lane = Lane::kBf16Word;
  return rows;
}

// Tokens as the left's rows, along the depth their elements times `factor`, a power of two.
inline TileFactor pack_left_rows(const TileRows& from, float factor, float* out) {
  const int64_t row = round_up(from.width / 2, kTileSide);
  with_loader(from.rows, from.width, [&](const auto& load_row) {
    for (int64_t t = 0; t < from.tokens; ++t) {
      auto* to = reinterpret_cast<uint16_t*>(out + t * row);
      for (int64_t i = 0; i < 2 * row; i += kTileSide) {
        store_bf16(to + i, i < from.width ? load_row(from.at[t], i) * set(factor) : set(0));
      }
    }
  });
  return {out, row, kTileSide, kTileSide * row};
}
inline int64_t left_rows_floats(int64_t tokens, int64_t width) {
  return round_up(tokens, kTileSide) * round_up(width / 2, kTileSide);
}

// Tokens as the right's columns, along the depth their elements; past the last token comes that one again.
inline TileFactor pack_right_columns(const TileRows& from, float* out) {
  const int64_t words = from.width / 2, deep = tiles_of(words);
  with_loader(as_words(from.rows), words, [&](const auto& load_row) {
    float* to = out;
    for (int64_t t = 0; t < from.tokens; t += kTileSide) {
      int64_t token[kTileSide];
      for (int64_t r = 0; r < kTileSide; ++r) token[r] = from.at[std::min(t + r, from.tokens - 1)];
      for (int64_t i = 0; i < words; i += kTileSide, to += kTileFloats) {
        F square[kTileSide];
#pragma GCC unroll 16
        for (int r = 0; r < kTileSide; ++r) square[r] = load_row(token[r], i);
        transpose(square);
#pragma GCC unroll 16
        for (int r = 0; r < kTileSide; ++r) store(to + r * kTileSide, square[r]);
      }
    }
  });
  return {out, kTileSide, kTileFloats, deep * kTileFloats};
}
inline int64_t right_columns_floats(int64_t tokens, int64_t width) {
  return tiles_of(tokens) * tiles_of(width / 2) * kTileFloats;
}

// Words of two tokens that follow each other, element by element: those of 16 elements from i on, of tokens t and t + 1
// of the list; zeros past its end.
template <class Load>
inline F token_pair(const TileRows& from, const Load& load_row, int64_t t, int64_t i) {
  if (t >= from.tokens) return set(0);
  const U low = (U)as_int(load_row(from.at[t], i)) >> 16;
  const U high = t + 1 < from.tokens ? (U)as_int(load_row(from.at[t + 1], i)) : set_uint(0);
  return as_float((I)(low | high));
}

// Elements as the right's columns, along the depth the tokens.
inline TileFactor pack_right_tokens(const TileRows& from, float* out) {
  const int64_t pairs = round_up(from.tokens, kTilePairs) / 2, across = pairs * kTileSide;
  with_loader(from.rows, from.width, [&](const auto& load_row) {
    for (int64_t t = 0; t < pairs; ++t) {
      for (int64_t i = 0; i < from.width; i += kTileSide) {
        store(out + i / kTileSide * across + t * kTileSide, token_pair(from, load_row, 2 * t, i));
      }
    }
  });
  return {out, kTileSide, kTileFloats, across};
}

// Elements as the left's rows, along the depth the tokens.
inline TileFactor pack_left_tokens(const TileRows& from, float* out) {
  const int64_t pairs = round_up(from.tokens, kTilePairs) / 2;
  with_loader(from.rows, from.width, [&](const auto& load_row) {
    for (int64_t i = 0; i < from.width; i += kTileSide) {
      for (int64_t t = 0; t < pairs; t += kTileSide) {
        F square[kTileSide];
#pragma GCC unroll 16
        for (int r = 0; r < kTileSide; ++r) square[r] = token_pair(from, load_row, 2 * (t + r), i);
        transpose(square);
#pragma GCC unroll 16
        for (int r = 0; r < kTileSide; ++r) store(out + (i + r) * pairs + t, square[r]);
      }
    }
  });
  return {out, pairs, kTileSide, kTileSide * pairs};
}
// The floats that pack_right_tokens() or pack_left_tokens() needs.
inline int64_t token_pairs_floats(int64_t tokens, int64_t width) {
  return round_up(tokens, kTilePairs) / 2 * round_up(width, kTileSide);
}

// The part of a scale of scores by which queries are multiplied before the product: it changes none of their digits.
inline float scale_of_queries(float scale) {
  const float magnitude = std::abs(scale);
  const bool power_of_two =
      magnitude > 0x1p-20F && magnitude < 0x1p20F && std::exp2(std::ilogb(magnitude)) == magnitude;
  return power_of_two ? scale : 1.0F;
}

// ---- factors out of floats ----

// x to 16 significant bits.
inline F narrowed(F x) { return as_float(as_int(x) & static_cast<int32_t>(0xffffff00U)); }

// A number of bfloat16 and the rest, which is one too where x is narrowed(), else nearly.
struct TwoNumbers {
  I first, second;  // each number lies in the upper half of its lane
  explicit TwoNumbers(F x)
      : first(as_int(x) & static_cast<int32_t>(0xffff0000U)), second(as_int(x - as_float(first))) {}
};

// Words of x, their lower halves, and y.
inline F paired(I x, I y) { return as_float((I)((U)x >> 16) | (y & static_cast<int32_t>(0xffff0000U))); }
// The 32 numbers in the upper halves of x, then y, in order.
inline F in_order(I x, I y) {
#if FOVEA_AVX512
  static constexpr auto kOdd = [] {
    std::array<uint16_t, 32> places{};
    for (uint16_t i = 0; i < 32; ++i) places[i] = static_cast<uint16_t>(2 * i + 1);
    return places;
  }();
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16((__m512i)x, _mm512_loadu_si512(kOdd.data()), (__m512i)y));
#else
  uint16_t halves[2 * kLanes];
  for (int i = 0; i < kLanes; ++i) {
    halves[i] = static_cast<uint16_t>(static_cast<uint32_t>(x[i]) >> 16);
    halves[kLanes + i] = static_cast<uint16_t>(static_cast<uint32_t>(y[i]) >> 16);
  }
  return load(reinterpret_cast<const float*>(halves));
#endif
}

// The left's rows, in two numbers; along the depth [columns], which come 32 at a time: from column j on, a and then b,
// or the last 16 alone.
struct SplitRows {
  float* words = nullptr;
  int64_t row = 0, second = 0;  // floats

  SplitRows(int64_t rows, int64_t columns, float* out)
      : words(out), row(round_up(columns, kTilePairs) / 2), second(round_up(rows, kTileSide) * row) {}
  void at(int64_t r, int64_t j, F a, F b) const {
    const TwoNumbers x(a), y(b);
    float* to = words + r * row + j / 2;
    store(to, in_order(x.first, y.first));
    store(to + second, in_order(x.second, y.second));
  }
  void last(int64_t r, int64_t j, F a) const { at(r, j, a, set(0)); }
  TileFactor factor() const { return {words, row, kTileSide, kTileSide * row, second}; }
};
// The right's columns, in two numbers; along the depth rows, which come in pairs.
struct SplitColumns {
  float* words = nullptr;
  int64_t row = 0, second = 0;

  SplitColumns(int64_t rows, int64_t columns, float* out)
      : words(out), row(round_up(columns, kTileSide)), second(round_up(rows, kTilePairs) / 2 * row) {}
  // Writes the numbers a of row r, which is even, and b of row r + 1, from column j on.
  void at(int64_t r, int64_t j, F a, F b) const {
    const TwoNumbers x(a), y(b);
    float* to = words + r / 2 * row + j;
    store(to, paired(x.first, y.first));
    store(to + second, paired(x.second, y.second));
  }
  // Fills the depth behind row r - 1 with zeros, up to whole tiles.
  void end(int64_t r) const {
    for (float* numbers : {words, words + second}) std::fill(numbers + (r + 1) / 2 * row, numbers + second, 0.0F);
  }
  TileFactor factor() const { return {words, row, kTileSide * row, kTileSide, second}; }
};
constexpr int64_t split_floats(int64_t rows, int64_t columns) {
  return round_up(rows, kTilePairs) * round_up(columns, kTilePairs);
}

}  // namespace
}  // namespace fovea::kernels
