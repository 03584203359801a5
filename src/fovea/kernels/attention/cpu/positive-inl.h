#pragma once
#include "fovea/kernels/attention/cpu/dense_common-inl.h"
#include "fovea/kernels/attention/cpu/nonzeros-inl.h"

// The parts of a block of scores that ReLU skips.
namespace fovea::kernels {
namespace {

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
