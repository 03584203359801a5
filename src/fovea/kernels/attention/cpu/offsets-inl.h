#pragma once
#include "fovea/kernels/simd/simd-inl.h"
// Include <algorithm>, attention.h and candidates.h before.

// Terms by offset of a row of scores: reading values at the offsets of its columns, and summing by them.
namespace fovea::kernels {
namespace {

// The offset of a row's column c from its query: first + c step, or first + list[c].
struct ColumnOffsets {
  int64_t first = 0, step = 1;
  const int32_t* list = nullptr;
  int64_t operator[](int64_t c) const { return first + (list == nullptr ? c * step : list[c]); }
  bool is_run() const { return step == 1 && list == nullptr; }
};

// Values by offset, side by side.
struct OffsetRow {
  const float* values = nullptr;
  OffsetRange range;
};

// Columns [begin, end) of a run in three parts: up to `inner` they count as the range's first offset, from `outer` on
// as its last. Column c between them has index c + shift.
struct OffsetParts {
  int64_t begin, inner, outer, end, shift;
  OffsetParts(ColumnRange columns, const ColumnOffsets& offsets, const OffsetRange& range)
      : begin(columns.begin),
        inner(std::clamp<int64_t>(range.first - offsets.first, columns.begin, columns.end)),
        outer(std::clamp<int64_t>(range.first + range.count - offsets.first, inner, columns.end)),
        end(columns.end),
        shift(offsets.first - range.first) {}
};

inline void add_constant(float* s, int64_t begin, int64_t end, float value) {
  const F v = set(value);
  for (; begin + kLanes <= end; begin += kLanes) store(s + begin, load(s + begin) + v);
  if (begin < end) store_part(s + begin, load_part(s + begin, end - begin) + v, end - begin);
}

inline void add_floats(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(to + i) + load(from + i));
  if (i < count) store_part(to + i, load_part(to + i, count - i) + load_part(from + i, count - i), count - i);
}

inline float sum_floats(const float* s, int64_t begin, int64_t end) {
  F total = set(0);
  for (; begin + kLanes <= end; begin += kLanes) total = total + load(s + begin);
  if (begin < end) total = total + load_part(s + begin, end - begin);
  return sum(total);
}

// s[c] += row at the offset of column c.
inline void add_at_offsets(float* s, ColumnRange columns, const ColumnOffsets& offsets, const OffsetRow& row) {
  if (columns.begin >= columns.end) return;
  if (!offsets.is_run()) {
    for (int64_t c = columns.begin; c < columns.end; ++c) s[c] += row.values[row.range.index(offsets[c])];
    return;
  }
  const OffsetParts parts(columns, offsets, row.range);
  add_constant(s, parts.begin, parts.inner, row.values[0]);
  if (parts.inner < parts.outer) {
    add_floats(s + parts.inner, row.values + parts.inner + parts.shift, parts.outer - parts.inner);
  }
  add_constant(s, parts.outer, parts.end, row.values[row.range.count - 1]);
}

// sums[index of column c's offset] += s[c].
inline void sum_by_offset(const float* s, ColumnRange columns, const ColumnOffsets& offsets, const OffsetRange& range,
                          float* sums) {
  if (columns.begin >= columns.end) return;
  if (!offsets.is_run()) {
    for (int64_t c = columns.begin; c < columns.end; ++c) sums[range.index(offsets[c])] += s[c];
    return;
  }
  const OffsetParts parts(columns, offsets, range);
  if (parts.begin < parts.inner) sums[0] += sum_floats(s, parts.begin, parts.inner);
  if (parts.inner < parts.outer) {
    add_floats(sums + parts.inner + parts.shift, s + parts.inner, parts.outer - parts.inner);
  }
  if (parts.outer < parts.end) sums[range.count - 1] += sum_floats(s, parts.outer, parts.end);
}

inline float* float_row(const Rows<float>& rows, int64_t token, int64_t head) {
  return rows.data == nullptr ? nullptr : rows.data + token * rows.token_stride + head * rows.head_stride;
}
inline const float* float_row(const Rows<const float>& rows, int64_t token, int64_t head) {
  return rows.data + token * rows.token_stride + head * rows.head_stride;
}

}  // namespace
}  // namespace fovea::kernels
