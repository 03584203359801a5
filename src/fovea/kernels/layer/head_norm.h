#pragma once
#include <cstdint>

#include "fovea/base/executor.h"

// The norm of attention's output over all heads of a token, with the gate of ReLA-g (Zhang, Titov, Sennrich 2021,
// equation 5), in one pass forward and one backward. T is float, or uint16_t for the bits of bfloat16; sums and
// statistics are float. Arrays [rows, width] are contiguous, width being heads times head_dim.
//   normal = (z - centre) / sqrt(mean of (z - centre)^2 + eps), centre the row's mean for layer norm, 0 for RMS norm
//   y = sigmoid(z * gate) * (normal * gain + bias), without the sigmoid where gate is null, and without a bias where
//   that is null
namespace fovea::kernels {

enum class Centre : uint8_t { kZero, kMean };

template <class T>
struct HeadNorm {
  const T* z = nullptr;     // [rows, width]
  const T* gain = nullptr;  // [width]
  const T* gate = nullptr;  // [width] or null
  const T* bias = nullptr;  // [width] or null
  float* centre = nullptr;  // [rows], written by forward, read by backward
  float* rstd = nullptr;    // [rows], 1 / the root
  int64_t rows = 0, width = 0;
  Centre around = Centre::kZero;
  float eps = 0;
};

template <class T>
struct HeadNormGrads {
  const T* grad_y = nullptr;  // [rows, width]
  T* grad_z = nullptr;        // [rows, width]
  T* grad_gain = nullptr;     // [width]
  T* grad_gate = nullptr;     // [width], null where gate is
  T* grad_bias = nullptr;     // [width], null where bias is
};

void head_norm(const HeadNorm<float>& job, float* y, Executor& executor);
void head_norm(const HeadNorm<uint16_t>& job, uint16_t* y, Executor& executor);
void head_norm_backward(const HeadNorm<float>& job, const HeadNormGrads<float>& grads, Executor& executor);
void head_norm_backward(const HeadNorm<uint16_t>& job, const HeadNormGrads<uint16_t>& grads, Executor& executor);

}  // namespace fovea::kernels
