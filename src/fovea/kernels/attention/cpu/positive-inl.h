#pragma once
#include "fovea/kernels/attention/cpu/dense_common-inl.h"
#include "fovea/kernels/attention/cpu/product-inl.h"

namespace fovea::kernels {
namespace {

// multiply() for a left side that is largely zeros, as ReLU's weights are: a bit says of each entry whether it may be
// anything else, and the others are passed over. A zero changes no chain of fused multiply-adds over finite numbers;
// other numbers of B there stay out.

constexpr int64_t kMarkBits = 64;    // entries of a word
constexpr int64_t kMarkedRows = 16;  // of A that pass over the rows of B under a word, while these are near
constexpr int64_t kMarkedWidth = 256;
constexpr int kMarkedVecs = 8;  // sums in registers at once

// Marks are worth finding for rows of this number of vectors.
constexpr bool may_pass_over(int64_t vecs) { return vecs * kLanes >= 32; }

// In halves of a cycle. multiply() spends 21/20 of `vector` on each vector of every entry. sum_marked() goes over a row
// in passes of kMarkedVecs vectors and one of the rest. A marked entry takes in each of the former `whole`, by how many
// passes follow the first, as rows of B grow too wide for the first cache, and in the latter `vector` on each vector
// and `finding`, but no less than `least`, a product's latency. Every entry, marked or not, takes `forward` or
// `backward` in each pass.
struct PassingCosts {
  int64_t vector, finding, least, whole[3], forward, backward;
};
constexpr PassingCosts kPassingCosts =
    kLanes == 16 ? PassingCosts{2, 3, 8, {22, 28, 28}, 1, 2}   // measured on a Zen 4
                 : PassingCosts{1, 3, 9, {11, 13, 18}, 2, 3};  // on a Zen 3; taken for others too

// Whether passing over pays where `count` of `all` entries are marked; overhead: forward's or backward's.
constexpr bool pays_to_pass_over(int64_t count, int64_t all, int64_t vecs, int64_t overhead) {
  const PassingCosts& costs = kPassingCosts;
  const int64_t whole = vecs / kMarkedVecs, rest = vecs % kMarkedVecs;
  const int64_t each = costs.whole[std::min<int64_t>((vecs - 1) / kMarkedVecs, 2)];
  const int64_t last = rest == 0 ? 0 : std::max(costs.least, rest * costs.vector + costs.finding);
  const int64_t passes = whole + (rest == 0 ? 0 : 1);
  return 20 * count * (whole * each + last) <= all * (21 * vecs * costs.vector - 20 * overhead * passes);
}

// Rows of bits: bit i % 64 of words[row * stride + i / 64] is entry i's.
struct Marks {
  const uint64_t* words = nullptr;
  int64_t stride = 0;
};

// The transpose of an 8 x 8 matrix of bits, one byte per row.
inline uint64_t transposed_bits(uint64_t x) {
  const auto exchange = [&x](int distance, uint64_t places) {
    const uint64_t differing = (x ^ (x >> distance)) & places;
    x ^= differing ^ (differing << distance);
  };
  exchange(7, 0x00aa00aa00aa00aa);
  exchange(14, 0x0000cccc0000cccc);
  exchange(28, 0x00000000f0f0f0f0);
  return x;
}

// Columns of the marks as rows, to out [columns rounded up to 8, stride] words of kMarkBits rows.
inline void transpose_marks(const Marks& marks, int64_t rows, int64_t columns, uint64_t* out, int64_t stride) {
  std::fill(out, out + (columns + 7) / 8 * 8 * stride, uint64_t{0});
  for (int64_t row = 0; row < rows; row += 8) {
    for (int64_t column = 0; column < columns; column += 8) {
      uint64_t square = 0;
      for (int64_t r = 0; r < std::min<int64_t>(8, rows - row); ++r) {
        square |= (marks.words[(row + r) * marks.stride + column / kMarkBits] >> (column % kMarkBits) & 0xff)
                  << (8 * r);
      }
      if (square == 0) continue;
      square = transposed_bits(square);
      for (int64_t c = 0; c < 8; ++c)
        out[(column + c) * stride + row / kMarkBits] |= (square >> (8 * c) & 0xff) << (row % kMarkBits);
    }
  }
}

// A row of A and rows of B under one word of marks.
struct MarkedRow {
  uint64_t marks = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t a_step = 1, b_step = 0;
};

template <int kVecs>
void sum_marked(const MarkedRow& row, int64_t column, float* sums) {
  F totals[kVecs];
  for (int v = 0; v < kVecs; ++v) totals[v] = load(sums + column + v * kLanes);
  for (uint64_t left = row.marks; left != 0; left &= left - 1) {
    const int64_t k = __builtin_ctzll(left);
    const F entry = set(row.a[k * row.a_step]);
    const float* b = row.b + k * row.b_step + column;
    for (int v = 0; v < kVecs; ++v) totals[v] = fma(entry, load(b + v * kLanes), totals[v]);
  }
  for (int v = 0; v < kVecs; ++v) store(sums + column + v * kLanes, totals[v]);
}

template <int kVecs>
void sum_last(const MarkedRow& row, int64_t column, int64_t vecs, float* sums) {
  if constexpr (kVecs > 0) {
    if (vecs == kVecs) return sum_marked<kVecs>(row, column, sums);
    sum_last<kVecs - 1>(row, column, vecs, sums);
  }
}

inline void sum_marked(const MarkedRow& row, int64_t vecs, float* sums) {
  int64_t column = 0;
  for (; vecs >= kMarkedVecs; vecs -= kMarkedVecs, column += kMarkedVecs * kLanes) {
    sum_marked<kMarkedVecs>(row, column, sums);
  }
  sum_last<kMarkedVecs - 1>(row, column, vecs, sums);
}

// multiply() up to kMarkedWidth columns, with one factor for all rows; marks: [rows], over the depth.
inline void multiply_marked(const Product& p, const Marks& marks, int64_t rows, int64_t vecs) {
  alignas(64) float sums[kMarkedRows * kMarkedWidth];
  const int64_t width = vecs * kLanes;
  const F factor = set(*p.factor);
  for (int64_t first = 0; first < rows; first += kMarkedRows) {
    const int64_t count = std::min(kMarkedRows, rows - first);
    std::fill(sums, sums + count * width, 0.0F);
    for (int64_t k = 0; k < p.depth; k += kMarkBits) {
      for (int64_t r = 0; r < count; ++r) {
        const uint64_t word = marks.words[(first + r) * marks.stride + k / kMarkBits];
        const float* a = p.a + (first + r) * p.a_row + k * p.a_step;
        if (word != 0) sum_marked({word, a, p.b + k * p.b_step, p.a_step, p.b_step}, vecs, sums + r * width);
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      float* c = p.c + (first + r) * p.c_row;
      for (int64_t i = 0; i < width; i += kLanes) {
        const F value = load(sums + r * width + i) * factor;
        store(c + i, p.add ? value + load(c + i) : value);
      }
    }
  }
}

// The parts of a block of scores that ReLU skips.

// Pairs without weight and gradient are skipped: groups of a block's rows without a positive score (NaN counts as
// positive), and, if few scores are positive, all others.
constexpr int64_t kGroupRows = 12;  // whole tiles at most levels
constexpr int64_t kRowWords = kBlockColumns / kMarkBits, kColumnWords = (kBlockRows + kMarkBits - 1) / kMarkBits;
static_assert(kBlockColumns % kMarkBits == 0 && kMaxDenseHeadDim <= kMarkedWidth);

struct PositiveScores {
  uint32_t live = ~0U;  // a bit for each group of rows that has one
  bool few = false;     // so few that passing over the others pays
  uint64_t marks[kBlockRows * kRowWords];

  Marks rows_from(int64_t row) const { return {marks + row * kRowWords, kRowWords}; }
};

// Columns [first, end) of a row of scores, at most kMarkBits, whose score is not at most zero.
inline uint64_t positive_bits(const float* s, int64_t first, int64_t end) {
  constexpr uint32_t kAll = (1U << kLanes) - 1;
  uint64_t marks = 0;
  for (int64_t j = first; j < end; j += kLanes) {
    marks |= uint64_t{bits(less_equal(load(s + j), set(0))) ^ kAll} << (j - first);
  }
  return marks;
}

class PositiveSearch {
 public:
  // overhead: as pays_to_pass_over()'s.
  PositiveSearch(const float* s, const DenseBlock& block, int64_t vecs, int64_t overhead)
      : s_(s), block_(block), vecs_(vecs), overhead_(overhead) {}

  void run(PositiveScores& found) const {
    found.live = 0;
    found.few = may_pass_over(vecs_) && sample();
    if (!found.few) return find_live(found);
    int64_t count = 0;
    for (int64_t r = 0; r < block_.rows; ++r) {
      const int64_t before = count;
      for (int64_t word = 0; word < kRowWords; ++word) {
        const uint64_t marks = word_of(r, word);
        found.marks[r * kRowWords + word] = marks;
        count += __builtin_popcountll(marks);
      }
      if (count > before) found.live |= group_of(r);
    }
    found.few = pays_to_pass_over(count, block_.rows * block_.columns, vecs_, overhead_);
  }

 private:
  static uint32_t group_of(int64_t row) { return 1U << (row / kGroupRows); }
  uint64_t word_of(int64_t row, int64_t word) const {
    const int64_t first = word * kMarkBits;
    return positive_bits(s_ + row * kBlockStride, first, std::min(first + kMarkBits, block_.part().end));
  }

  // Whether some of the rows speak for it.
  bool sample() const {
    constexpr int64_t kEvery = 8;
    int64_t count = 0, rows = 0;
    for (int64_t r = 0; r < block_.rows; r += kEvery, ++rows) {
      for (int64_t word = 0; word < kRowWords; ++word) count += __builtin_popcountll(word_of(r, word));
    }
    return pays_to_pass_over(count, rows * block_.columns, vecs_, overhead_);
  }
  void find_live(PositiveScores& found) const {
    for (int64_t r = 0; r < block_.rows; ++r) {
      for (int64_t j = 0; (found.live & group_of(r)) == 0 && j < block_.part().end; j += kLanes) {
        if (positive_bits(s_ + r * kBlockStride, j, j + kLanes) != 0) found.live |= group_of(r);
      }
    }
  }

  const float* s_;
  const DenseBlock& block_;
  int64_t vecs_, overhead_;
};

struct RowRun {
  int64_t first = 0, count = 0;
};

// The next rows of live groups that follow each other, from row `from` on; count 0: none.
inline RowRun next_run(uint32_t live, int64_t rows, int64_t from) {
  const int64_t groups = (rows + kGroupRows - 1) / kGroupRows;
  int64_t begin = (from + kGroupRows - 1) / kGroupRows;
  while (begin < groups && (live >> begin & 1) == 0) ++begin;
  int64_t end = begin;
  while (end < groups && (live >> end & 1) != 0) ++end;
  return {begin * kGroupRows, std::min(end * kGroupRows, rows) - std::min(begin * kGroupRows, rows)};
}

}  // namespace
}  // namespace fovea::kernels
