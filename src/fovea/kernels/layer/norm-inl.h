#pragma once
#include "fovea/kernels/layer/element-inl.h"

// Shared by the norms.
namespace fovea::kernels {
namespace {

constexpr int64_t kRows = 64;  // of a piece; backward keeps partial sums for each

// Lanes from n on zero.
inline F only(F v, int64_t n) { return n >= kLanes ? v : select(first(n), v, set(0)); }

inline int64_t padded(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

struct Statistics {
  float mean, rstd;
};

// sqrt(mean of (row - centre)^2 + eps), inverted. `row` has whole vectors.
inline float inverse_deviation(const float* row, int64_t width, float centre, float eps) {
  F squares = set(0);
  for (int64_t i = 0; i < width; i += kLanes) {
    const F difference = only(load(row + i) - set(centre), width - i);
    squares = fma(difference, difference, squares);
  }
  return 1 / std::sqrt(sum(squares) / static_cast<float>(width) + eps);
}

inline Statistics statistics(const float* row, int64_t width, float eps) {
  F total = set(0);
  for (int64_t i = 0; i < width; i += kLanes) total = total + only(load(row + i), width - i);
  const float mean = sum(total) / static_cast<float>(width);
  return {mean, inverse_deviation(row, width, mean, eps)};
}

template <class Row>
void for_rows(int64_t piece, int64_t rows, Row&& row) {
  for (int64_t r = piece * kRows; r < std::min((piece + 1) * kRows, rows); ++r) row(r);
}

inline int64_t pieces_of_rows(int64_t rows) { return (rows + kRows - 1) / kRows; }

// `piece(p, sums)` adds to its own sums [floats], whole vectors; the total of all pieces in their order comes back.
template <class Piece>
float* sum_of_pieces(int64_t rows, int64_t floats, Executor& executor, Piece&& piece) {
  const int64_t pieces = pieces_of_rows(rows);
  float* sums = thread_scratch(Use::kPartialSums).get<float>((pieces + 1) * floats);
  std::fill_n(sums, (pieces + 1) * floats, 0.0F);
  executor.run(pieces, [&](int64_t p, int) { piece(p, sums + (p + 1) * floats); });
  for (int64_t p = 1; p <= pieces; ++p) {
    const float* part = sums + p * floats;
    for (int64_t i = 0; i < floats; i += kLanes) store(sums + i, load(sums + i) + load(part + i));
  }
  return sums;
}

template <class T>
void write_sums(const float* sums, T* to, int64_t width) {
  for (int64_t i = 0; i < width; i += kLanes) store_some(to + i, load(sums + i), width - i);
}

}  // namespace
}  // namespace fovea::kernels
