#include "fovea/kernels/layer/rotary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

namespace fovea::kernels {
namespace {

constexpr int64_t kLeastRotaryPositions = 512;  // of a table

// Copies the first rows from `before`, which may be null.
std::shared_ptr<const RotaryTable> make_table(int64_t head_dim, double base, int64_t positions,
                                              const RotaryTable* before) {
  const int64_t half = head_dim / 2;
  auto table = std::make_shared<RotaryTable>();
  table->values = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(positions * head_dim));
  table->positions = positions;
  const int64_t known = before == nullptr ? 0 : before->positions;
  if (known > 0) std::copy_n(before->values.get(), known * head_dim, table->values.get());
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t p = known; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      float* row = table->values.get() + p * head_dim;
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace

std::shared_ptr<const RotaryTable> rotary_table(int64_t head_dim, double base, int64_t positions) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, double>, std::shared_ptr<const RotaryTable>> tables;
  const std::scoped_lock lock(mutex);
  auto& table = tables[{head_dim, base}];
  if (!table || table->positions < positions) {
    const int64_t grown = table ? 2 * table->positions : kLeastRotaryPositions;
    table = make_table(head_dim, base, std::max(positions, grown), table.get());
  }
  return table;
}

}  // namespace fovea::kernels
