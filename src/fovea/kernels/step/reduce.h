#pragma once
#include <cstdint>

#include "fovea/base/executor.h"

namespace fovea::kernels {

// Sum of squares of values [count], in double over blocks of a fixed size: the same for every number of threads.
double sum_of_squares(const float* values, int64_t count, Executor& executor);

}  // namespace fovea::kernels
