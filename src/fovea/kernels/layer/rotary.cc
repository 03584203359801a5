#include "fovea/kernels/layer/rotary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

namespace fovea::kernels {
namespace {

constexpr int64_t kLeastRotaryPositions = 512;  // of a table

// Copies the first rows from `before`, which may be null.
std::shared_ptr<const RotaryTable> make_table(const RotaryAngles& angles, int64_t positions,
                                              const RotaryTable* before) {
  const auto half = static_cast<int64_t>(angles.frequencies.size()), head_dim = 2 * half;
  auto table = std::make_shared<RotaryTable>();
  table->values = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(positions * head_dim));
  table->positions = positions;
  const int64_t known = before == nullptr ? 0 : before->positions;
  if (known > 0) std::copy_n(before->values.get(), known * head_dim, table->values.get());
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = angles.frequencies[static_cast<size_t>(i)];
    for (int64_t p = known; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      float* row = table->values.get() + p * head_dim;
      row[i] = static_cast<float>(angles.scale * std::cos(angle));
      row[half + i] = static_cast<float>(angles.scale * std::sin(angle));
    }
  }
  return table;
}

}  // namespace

std::shared_ptr<const RotaryTable> rotary_table(const RotaryAngles& angles, int64_t positions) {
  static std::mutex mutex;
  static std::map<RotaryAngles, std::shared_ptr<const RotaryTable>> tables;
  const std::scoped_lock lock(mutex);
  auto& table = tables[angles];
  if (!table || table->positions < positions) {
    const int64_t grown = table ? 2 * table->positions : kLeastRotaryPositions;
    table = make_table(angles, std::max(positions, grown), table.get());
  }
  return table;
}

}  // namespace fovea::kernels
