#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/kernels/layer/norm.h"

// Gated linear units (Shazeer 2020) with dropout, in one pass: a row of x is a [width] followed by b [width], and
//   out = dropout(f(a) b).
// Units without a gate have rows of a alone, and out = dropout(f(a)).
// T is float, or uint16_t for the bits of bfloat16; all is computed in float.
namespace fovea::kernels {

// f(a): a Phi(a), exact; a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2; a sigmoid(a).
enum class Gate : uint8_t { kGelu, kGeluTanh, kSilu };
enum class Units : uint8_t { kGated, kPlain };

template <class T>
struct GatedForward {
  const T* x = nullptr;  // [rows, 2 width]; without a gate [rows, width]
  T* out = nullptr;      // [rows, width], contiguous
  int64_t rows = 0, width = 0, x_stride = 0;
  Gate gate = Gate::kGelu;
  Units units = Units::kGated;
  DropoutMask dropout = {};
};

template <class T>
struct GatedBackward {
  const T* x = nullptr;         // [rows, 2 width]; without a gate [rows, width]
  const T* grad_out = nullptr;  // [rows, width], contiguous
  T* grad_x = nullptr;          // as x, contiguous
  int64_t rows = 0, width = 0, x_stride = 0;
  Gate gate = Gate::kGelu;
  Units units = Units::kGated;
  DropoutMask dropout = {};
};

void gated(const GatedForward<float>& job, Executor& executor);
void gated(const GatedForward<uint16_t>& job, Executor& executor);
void gated(const GatedBackward<float>& job, Executor& executor);
void gated(const GatedBackward<uint16_t>& job, Executor& executor);

}  // namespace fovea::kernels
