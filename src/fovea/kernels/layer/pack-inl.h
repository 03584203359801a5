#pragma once
#include "fovea/kernels/layer/element-inl.h"
#include "fovea/kernels/layer/tile-inl.h"
#include "fovea/kernels/simd/transpose-inl.h"

// Factors in the order in which tile-inl.h walks them. Elements beyond an odd depth or a ragged edge are filled with
// zeros.
namespace fovea::kernels {
namespace {

// The step in which products of T are done at this level.
template <class T>
struct StepOf {
  using type = FloatStep;
};
#if defined(FOVEA_TILES)
template <>
struct StepOf<uint16_t> {
  using type = Bf16Tiles;
};
#elif FOVEA_ISA == 3 || FOVEA_ISA == 8
template <>
struct StepOf<uint16_t> {
  using type = Bf16Step;
};
#endif

// The number of steps of a depth; if products go by tiles, the steps of whole tiles.
template <class Step>
constexpr int64_t steps_of(int64_t depth) {
  const int64_t steps = (depth + Step::kDepth - 1) / Step::kDepth;
  return Step::kTiles ? (steps + 15) / 16 * 16 : steps;
}

// kLanes elements from p, or zeros where mask (unless null) is at most zero; n of them exist.
template <class T>
inline F load_masked(const T* p, const T* mask, int64_t n) {
  const F value = load_some(p, n);
  if (mask == nullptr) return value;
  return select(less_equal(load_some(mask, n), set(0)), set(0), value);
}

template <class T>
struct Matrix {
  const T* data = nullptr;
  const T* mask = nullptr;
  int64_t stride = 0, mask_stride = 0;

  Matrix at(int64_t row, int64_t column) const {
    return {data + row * stride + column, mask == nullptr ? nullptr : mask + row * mask_stride + column, stride,
            mask_stride};
  }
};

// The four-byte units of one step (one row, or two rows interleaved) from where `from` begins; depth and n are what is
// left of it.
template <class Step, class T>
inline F load_step(const Matrix<T>& from, int64_t depth, int64_t n) {
  const F first = load_masked(from.data, from.mask, n);
  if constexpr (Step::kDepth == 1) {
    return first;
  } else {
    const U low = (U)as_int(first) >> 16;
    if (depth < 2) return as_float((I)low);
    const Matrix<T> next = from.at(1, 0);
    const F second = load_masked(next.data, next.mask, n);
    return as_float((I)(low | (U)as_int(second)));
  }
}

// [depth, columns] of `from` to [steps][padded], padded a multiple of kLanes and at least columns.
template <class Step, class T>
inline void pack_depth_rows(const Matrix<T>& from, int64_t depth, int64_t columns, float* to, int64_t padded) {
  const int64_t written = (depth + Step::kDepth - 1) / Step::kDepth;
  std::fill(to + written * padded, to + steps_of<Step>(depth) * padded, 0.0F);
  for (int64_t k = 0; k < depth; k += Step::kDepth, to += padded) {
    const Matrix<T> row = from.at(k, 0);
    for (int64_t n = 0; n < padded; n += kLanes) {
      store(to + n, n < columns ? load_step<Step>(row.at(0, n), depth - k, columns - n) : set(0));
    }
  }
}

// Asks for the row that is packed some rows after `row`: the processor does not foresee rows that lie apart.
template <class T>
inline void expect_row(const Matrix<T>& row, int64_t columns) {
  constexpr int64_t kRowsAhead = 8;
  const T* ahead = row.data + kRowsAhead * row.stride;
  for (int64_t n = 0; n < columns; n += int64_t{64 / sizeof(T)}) __builtin_prefetch(ahead + n);
}

// [depth, columns] of `from` as the panels of a right factor, [steps][kTileColumns] each, the next `stride` floats on.
template <class Step, class T>
inline void pack_panels(const Matrix<T>& from, int64_t depth, int64_t columns, float* to, int64_t stride) {
  const int64_t written = (depth + Step::kDepth - 1) / Step::kDepth;
  for (int64_t n = 0; n < columns; n += kTileColumns) {
    float* panel = to + n / kTileColumns * stride;
    std::fill(panel + written * kTileColumns, panel + steps_of<Step>(depth) * kTileColumns, 0.0F);
  }
  for (int64_t k = 0; k < depth; k += Step::kDepth, to += kTileColumns) {
    const Matrix<T> row = from.at(k, 0);
    expect_row(row, columns);
    float* step = to;
    for (int64_t n = 0; n < columns; n += kTileColumns, step += stride) {
      for (int64_t v = 0; v < kTileColumns; v += kLanes) {
        store(step + v, n + v < columns ? load_step<Step>(row.at(0, n + v), depth - k, columns - n - v) : set(0));
      }
    }
  }
}

// The steps of a strip, and one more: the vector of the last step may write beyond it.
template <class Step>
constexpr int64_t strip_steps(int64_t depth) {
  return steps_of<Step>(depth) + 1;
}

// [depth, rows] of `from` as a left factor along the rows: to[strip][strip_steps][kStripRows]. A tile reads its factor
// from one end to the other.
template <class Step, class T>
inline LeftFactor pack_strips(const Matrix<T>& from, int64_t depth, int64_t rows, float* to) {
  const int64_t strip = strip_steps<Step>(depth) * kStripRows;
  for (int64_t k = 0; k < depth; k += Step::kDepth) {
    const Matrix<T> line = from.at(k, 0);
    expect_row(line, rows);
    float* step = to + k / Step::kDepth * kStripRows;
    for (int64_t r = 0; r < rows; r += kStripRows, step += strip) {
      // A vector may write beyond its step: into the next one, which is written later.
      for (int64_t v = 0; v < kStripRows; v += kLanes) {
        store(step + v, load_step<Step>(line.at(0, r + v), depth - k, rows - r - v));
      }
    }
  }
  return {reinterpret_cast<const char*>(to), strip * 4, kStripRows * 4};
}

template <class Step>
inline float unit_at(const float* p, int64_t) {
  return *p;
}
template <class Step>
inline float unit_at(const uint16_t* p, int64_t depth) {
  if constexpr (Step::kDepth == 1) return to_float(*p);
  const uint32_t pair = p[0] | (depth > 1 ? uint32_t{p[1]} << 16 : 0U);
  float unit;
  std::memcpy(&unit, &pair, sizeof unit);
  return unit;
}

// Four units of each of four columns, turned: to[s * kTileColumns + n] is unit s of column n.
inline void transpose_four(const char* column, int64_t column_bytes, float* to) {
  using Four = float __attribute__((vector_size(16)));
  Four a, b, c, d;
  std::memcpy(&a, column, sizeof a);
  std::memcpy(&b, column + column_bytes, sizeof b);
  std::memcpy(&c, column + 2 * column_bytes, sizeof c);
  std::memcpy(&d, column + 3 * column_bytes, sizeof d);
  const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four rows[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int s = 0; s < 4; ++s) std::memcpy(to + s * kTileColumns, &rows[s], sizeof rows[s]);
}

// A panel out of columns whose elements lie along the depth: column n begins at from + n * column_stride.
template <class Step, class T>
inline void pack_transposed(const T* from, int64_t column_stride, int64_t depth, int64_t columns, float* panel) {
  const int64_t steps = steps_of<Step>(depth);
  const bool plain = sizeof(T) * Step::kDepth == 4;  // a unit is four bytes of a column as they are
  const int64_t whole_steps = plain ? depth / Step::kDepth / 4 * 4 : 0, whole_columns = columns / 4 * 4;
  const auto bytes = static_cast<int64_t>(sizeof(T));
  for (int64_t n = 0; n < whole_columns; n += 4) {
    const char* column = reinterpret_cast<const char*>(from + n * column_stride);
    for (int64_t s = 0; s < whole_steps; s += 4) {
      transpose_four(column + s * 4, column_stride * bytes, panel + s * kTileColumns + n);
    }
  }
  for (int64_t n = 0; n < kTileColumns; ++n) {
    const T* column = from + n * column_stride;
    for (int64_t s = n < whole_columns ? whole_steps : 0; s < steps; ++s) {
      const int64_t k = s * Step::kDepth;
      panel[s * kTileColumns + n] = n < columns && k < depth ? unit_at<Step>(column + k, depth - k) : 0.0F;
    }
  }
}

// Rows that can be multiplied where they are: units along the depth, nothing to convert, mask or pad.
template <class Step, class T>
inline bool usable_in_place(const Matrix<T>& a, int64_t depth) {
  return a.mask == nullptr && sizeof(T) * Step::kDepth == 4 && depth == steps_of<Step>(depth) * Step::kDepth;
}

// [rows, depth] of `from` as units along the depth to [rows][steps].
template <class Step, class T>
inline void pack_rows(const Matrix<T>& from, int64_t rows, int64_t depth, float* to) {
  const int64_t steps = steps_of<Step>(depth);
  for (int64_t r = 0; r < rows; ++r) {
    const Matrix<T> row = from.at(r, 0);
    if constexpr (Step::kDepth == 1) {
      for (int64_t k = 0; k < depth; k += kLanes) {
        const T* mask = row.mask == nullptr ? nullptr : row.mask + k;
        store_part(to + r * steps + k, load_masked(row.data + k, mask, depth - k), depth - k);
      }
    } else {
      uint16_t* pairs = reinterpret_cast<uint16_t*>(to + r * steps);
      std::fill(pairs + depth / 2 * 2, pairs + 2 * steps, uint16_t{0});
      for (int64_t k = 0; k < depth; k += kLanes) {
        const T* mask = row.mask == nullptr ? nullptr : row.mask + k;
        store_part(pairs + k, load_masked(row.data + k, mask, depth - k), depth - k);
      }
    }
  }
}

// [steps][rows] units, steps `step_bytes` apart, to [rows][steps]: both whole squares of kLanes.
struct UnitLines {
  const char* data = nullptr;
  int64_t step_bytes = 0;
};
inline void turn_units(const UnitLines& from, int64_t rows, int64_t steps, float* to) {
  for (int64_t s = 0; s < steps; s += kLanes) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      F square[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        square[i] = load(reinterpret_cast<const float*>(from.data + (s + i) * from.step_bytes) + r);
      }
      transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) store(to + (r + i) * steps + s, square[i]);
    }
  }
}

// Rows as the left factor, where they are as far as they can be used there. room: [rows, whole tiles of them][steps].
template <class Step, class T>
inline LeftFactor left_rows(const Matrix<T>& from, int64_t rows, int64_t depth, float* room) {
  const int64_t steps = steps_of<Step>(depth);
  const bool in_place = usable_in_place<Step>(from, depth);
  const int64_t whole = !in_place ? 0 : Step::kTiles ? rows / 16 * 16 : rows;  // 16: of a tile
  if (whole < rows) pack_rows<Step>(from.at(whole, 0), rows - whole, depth, room);
  const char* packed = reinterpret_cast<const char*>(room);
  if (in_place) {
    return {reinterpret_cast<const char*>(from.data), from.stride * int64_t{sizeof(T)}, 4, packed, steps * 4};
  }
  return {packed, steps * 4, 4, packed + rows / 16 * 16 * steps * 4, steps * 4};
}

}  // namespace
}  // namespace fovea::kernels
