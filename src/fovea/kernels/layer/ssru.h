#pragma once
#include <cstdint>

#include "fovea/base/executor.h"

// The recurrence of a simpler simple recurrent unit (Kim et al. 2019) over packed sequences, in one pass. A row of
// `projected` is v [width] followed by g [width], and with f = sigmoid(g), c before a sequence 0 or given,
//   c = f c + (1 - f) v,  out = relu(c).
// T is float, or uint16_t for the bits of bfloat16; all is computed in float. A sequence's results depend on it alone.
namespace fovea::kernels {

template <class T>
struct SsruForward {
  const T* projected = nullptr;      // [tokens, 2 width]
  const int64_t* offsets = nullptr;  // [sequences + 1]
  float* states = nullptr;           // [sequences, width], c before the sequences, then after them; null: 0 before
  T* out = nullptr;                  // [tokens, width], contiguous
  int64_t sequences = 0, width = 0, stride = 0;  // stride: between rows of `projected`
};

// The derivatives of sequences that began with c = 0.
template <class T>
struct SsruBackward {
  const T* projected = nullptr;
  const int64_t* offsets = nullptr;
  const T* grad_out = nullptr;  // [tokens, width], contiguous
  T* grad_projected = nullptr;  // [tokens, 2 width], contiguous
  int64_t sequences = 0, width = 0, stride = 0;
};

void ssru(const SsruForward<float>& job, Executor& executor);
void ssru(const SsruForward<uint16_t>& job, Executor& executor);
void ssru(const SsruBackward<float>& job, Executor& executor);
void ssru(const SsruBackward<uint16_t>& job, Executor& executor);

}  // namespace fovea::kernels
