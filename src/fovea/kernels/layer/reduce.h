#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/base/executor.h"

namespace fovea::kernels {

// Sum of squares of values [count], in double over blocks of a fixed size: the same for every number of threads.
double sum_of_squares(const float* values, int64_t count, Executor& executor);

// The sum of squares of each part, as above.
std::vector<double> sums_of_squares(std::span<const std::span<const float>> parts, Executor& executor);

}  // namespace fovea::kernels
