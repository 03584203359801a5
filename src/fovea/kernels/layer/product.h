#pragma once
#include <cstdint>

#include "fovea/base/executor.h"

// Matrix products of a layer, with what surrounds them done while the numbers are in registers or the nearest cache.
// T is float, or uint16_t for the bits of bfloat16; sums are float. Strides are in elements.
namespace fovea::kernels {

// out = relu?(a b + bias), a row for each token.
template <class T>
struct RowProduct {
  const T* a = nullptr;     // [rows, depth]
  const T* mask = nullptr;  // [rows, depth] or null: a's elements count as zero where this is at most zero
  const T* b = nullptr;     // [depth, columns], element (k, n) at k * b_depth_stride + n * b_column_stride
  const T* bias = nullptr;  // [columns] or null
  T* out = nullptr;         // [rows, columns]
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t a_stride = 0, mask_stride = 0, b_depth_stride = 0, b_column_stride = 0, out_stride = 0;
  bool relu = false;
};

// out = a^T b, the sum over tokens: gradients of weights. row_sums = sum over tokens of a: gradients of biases.
template <class T>
struct TokenSum {
  const T* a = nullptr;     // [depth, rows]
  const T* mask = nullptr;  // as above, [depth, rows]
  const T* b = nullptr;     // [depth, columns]
  T* out = nullptr;         // [rows, columns]
  T* row_sums = nullptr;    // [rows] or null
  int64_t depth = 0, rows = 0, columns = 0;
  int64_t a_stride = 0, mask_stride = 0, b_stride = 0, out_stride = 0;
};

void multiply(const RowProduct<float>& job, Executor& executor);
void multiply(const RowProduct<uint16_t>& job, Executor& executor);
void multiply(const TokenSum<float>& job, Executor& executor);
void multiply(const TokenSum<uint16_t>& job, Executor& executor);

}  // namespace fovea::kernels
