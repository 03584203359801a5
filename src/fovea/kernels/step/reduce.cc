#include "fovea/kernels/step/reduce.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace fovea::kernels {
namespace {

constexpr int64_t kBlock = 1 << 15;

double block_sum(const float* values, int64_t count) {
  constexpr int64_t kLanes = 16;  // independent sums, so that the loop vectorises in a fixed order
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[static_cast<size_t>(lane)] += value * value;
    }
  }
  double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (; i < count; ++i) total += double{values[i]} * double{values[i]};
  return total;
}

}  // namespace

double sum_of_squares(const float* values, int64_t count, Executor& executor) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  executor.run(blocks, [&](int64_t block, int) {
    const int64_t first = block * kBlock;
    sums[static_cast<size_t>(block)] = block_sum(values + first, std::min(kBlock, count - first));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace fovea::kernels
