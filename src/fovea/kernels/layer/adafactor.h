#pragma once
#include <cstdint>
#include <span>

#include "fovea/base/executor.h"

namespace fovea::kernels {

// One parameter: `matrices` matrices [rows, columns], one after the other. A vector or a scalar has one row, and `row`
// is null: `column` then holds a mean square for each element.
struct AdafactorTensor {
  float* params = nullptr;       // [matrices, rows, columns]
  const float* grads = nullptr;  // the same
  uint16_t* copy = nullptr;      // the same or null: the parameters rounded to bfloat16
  float* row = nullptr;          // [matrices, rows]: running means over a row of squared gradients
  float* column = nullptr;       // [matrices, columns]: the same over a column
  int64_t matrices = 1, rows = 1, columns = 0;
};

// Shazeer and Stern (2018) without a first moment. For each parameter, with g = grad_scale grads:
//   row, column = (1 - fresh) row, column + fresh (mean of g^2 + 1e-30)
//   u = g / sqrt(row column / mean(row)), divided by max(1, RMS(u) / clip)
//   params = (1 - decay) params - rate u; if `relative`, the rate is first multiplied by max(1e-3, RMS(params))
struct AdafactorPass {
  std::span<const AdafactorTensor> tensors;
  float grad_scale = 1;
  float fresh = 1;  // 1 - beta2 of this update
  float decay = 0;  // learning rate * weight decay
  double rate = 0;
  bool relative = false;
  double clip = 0;  // 0: none
};

// The result does not depend on the number of threads.
void adafactor(const AdafactorPass& job, Executor& executor);

}  // namespace fovea::kernels
