#pragma once
#include "fovea/kernels/attention/cpu/rows-inl.h"

// One query against keys and values where they lie: a step of decoding, a row of random keys. Packing would cost more
// than it saves.
namespace fovea::kernels {
namespace {

// A head's rows lie a whole token apart, too far for the machine's own guess: ask for rows that come later, of this
// sequence or, where sequences follow one another, of the next.
constexpr int64_t kRowsAhead = 64;

struct SingleRow {
  const float* query = nullptr;  // whole vectors, zeros behind
  HeadRows rows;                 // keys or values
  TokenList tokens;
  int64_t width = 0;
  int64_t ahead = kRowsAhead;  // 0: none, or the caller asks
};

inline void ask_ahead(const SingleRow& in, int64_t token) {
  if (in.ahead > 0) prefetch_row(in.rows, token + in.ahead, in.width);
}

// Scores of columns [0, columns), and rubbish behind up to a multiple of four: sums over vectors first, then across
// lanes, of four keys side by side.
inline void score_single(const SingleRow& in, int64_t columns, float scale, float* s) {
  with_loader(in.rows, in.width, [&](const auto& load_row) {
    const int64_t padded = round_up(in.width, kLanes);
    for (int64_t c = 0; c < columns; c += 4) {
      int64_t token[4];
      for (int r = 0; r < 4; ++r) token[r] = in.tokens[std::min(c + r, columns - 1)];
      for (int r = 0; r < 4; ++r) ask_ahead(in, token[r]);
      F total[4] = {set(0), set(0), set(0), set(0)};
      for (int64_t i = 0; i < padded; i += kLanes) {
        const F q = load(in.query + i);
        for (int r = 0; r < 4; ++r) total[r] = fma(q, load_row(token[r], i), total[r]);
      }
      sums(total[0], total[1], total[2], total[3], scale, s + c);
    }
  });
}

// out[i] = factor sum_c p[c] V[c][i], i < whole vectors of width; even and odd columns apart, then together.
// kSkipsZeros: the same sum without the terms of weight zero.
template <bool kSkipsZeros>
void mix_single(const SingleRow& in, int64_t columns, const float* p, float factor, float* out) {
  const auto adds = [&](int64_t c) { return !kSkipsZeros || p[c] != 0; };
  with_loader(in.rows, in.width, [&](const auto& load_row) {
    const int64_t padded = round_up(in.width, kLanes);
    constexpr int kWide = 4;
    for (int64_t at = 0; at < padded; at += kWide * kLanes) {
      const auto vecs = static_cast<int>(std::min<int64_t>(kWide, (padded - at) / kLanes));
      F even[kWide], odd[kWide];
      for (int v = 0; v < kWide; ++v) even[v] = odd[v] = set(0);
      int64_t c = 0;
      for (; c + 2 <= columns; c += 2) {
        const int64_t first = in.tokens[c], second = in.tokens[c + 1];
        ask_ahead(in, first);
        ask_ahead(in, second);
        for (int v = 0; v < vecs; ++v) {
          if (adds(c)) even[v] = fma(set(p[c]), load_row(first, at + v * kLanes), even[v]);
          if (adds(c + 1)) odd[v] = fma(set(p[c + 1]), load_row(second, at + v * kLanes), odd[v]);
        }
      }
      if (c < columns && adds(c)) {
        for (int v = 0; v < vecs; ++v) even[v] = fma(set(p[c]), load_row(in.tokens[c], at + v * kLanes), even[v]);
      }
      for (int v = 0; v < vecs; ++v) store(out + at + v * kLanes, (even[v] + odd[v]) * set(factor));
    }
  });
}

}  // namespace
}  // namespace fovea::kernels
