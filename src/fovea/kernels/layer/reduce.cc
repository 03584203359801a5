#include "fovea/kernels/layer/reduce.h"

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
  const std::array parts = {std::span(values, static_cast<size_t>(count))};
  return sums_of_squares(parts, executor).front();
}

std::vector<double> sums_of_squares(std::span<const std::span<const float>> parts, Executor& executor) {
  struct Block {
    size_t part;
    std::span<const float> values;
    double sum = 0;
  };
  std::vector<Block> blocks;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (std::span<const float> rest = parts[part]; !rest.empty(); rest = rest.subspan(blocks.back().values.size()))
      blocks.push_back({part, rest.first(std::min<size_t>(kBlock, rest.size()))});
  }
  executor.run(std::ssize(blocks), [&](int64_t index, int) {
    Block& block = blocks[static_cast<size_t>(index)];
    block.sum = block_sum(block.values.data(), std::ssize(block.values));
  });
  std::vector<double> sums(parts.size());
  for (const Block& block : blocks) sums[block.part] += block.sum;
  return sums;
}

}  // namespace fovea::kernels
