#pragma once
#include <cstdint>

#include "fovea/base/executor.h"

// Residual, dropout and normalisation in one pass. T is float, or uint16_t for the bits of bfloat16; sums and
// statistics are float. All arrays [rows, width] are contiguous. A job whose `mean` is null is RMS norm (Zhang and
// Sennrich 2019): its means count as 0, its variances are mean squares, and it has no bias.
namespace fovea::kernels {

struct DropoutMask {
  float rate = 0;    // 0: nothing is dropped; what stays is divided by 1 - rate
  int64_t seed = 0;  // element i draws from (seed, i), see dropout.h
};

// sum = residual + dropout(x); out = (sum - mean) / deviation * gain + bias.
template <class T>
struct NormForward {
  const T* x = nullptr;         // [rows, width]
  const T* residual = nullptr;  // [rows, width], or null: the sum is dropout(x)
  const T* gain = nullptr;      // [width]
  const T* bias = nullptr;      // [width]; RMS norm: null
  T* sum = nullptr;             // [rows, width], or null when it is x itself
  T* out = nullptr;             // [rows, width]
  float* mean = nullptr;        // [rows], for backward; RMS norm: null
  float* rstd = nullptr;        // [rows], 1 / sqrt(variance + eps)
  int64_t rows = 0, width = 0;
  float eps = 0;
  DropoutMask dropout = {};
};

template <class T>
struct NormBackward {
  const T* sum = nullptr;       // [rows, width], the input of the norm
  const T* gain = nullptr;      // [width]
  const float* mean = nullptr;  // [rows]; RMS norm: null
  const float* rstd = nullptr;  // [rows]
  const T* grad_out = nullptr;  // [rows, width]
  const T* grad_sum = nullptr;  // [rows, width] or null: what else depends on the sum
  T* grad_residual = nullptr;   // [rows, width], the gradient of the sum
  T* grad_x = nullptr;          // [rows, width], or null: nothing was dropped and it is grad_residual
  T* grad_gain = nullptr;       // [width]
  T* grad_bias = nullptr;       // [width]; RMS norm: null
  int64_t rows = 0, width = 0;
  DropoutMask dropout = {};
};

// out = dropout(x), elementwise; also its own backward.
template <class T>
struct DropoutPass {
  const T* x = nullptr;  // [count]
  T* out = nullptr;      // [count]
  int64_t count = 0;
  DropoutMask dropout = {};
};

void norm_forward(const NormForward<float>& job, Executor& executor);
void norm_forward(const NormForward<uint16_t>& job, Executor& executor);
void norm_backward(const NormBackward<float>& job, Executor& executor);
void norm_backward(const NormBackward<uint16_t>& job, Executor& executor);
void drop(const DropoutPass<float>& job, Executor& executor);
void drop(const DropoutPass<uint16_t>& job, Executor& executor);

}  // namespace fovea::kernels
