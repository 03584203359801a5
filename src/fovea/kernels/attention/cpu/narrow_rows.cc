#include "fovea/kernels/attention/cpu/narrow_rows.h"

#include <algorithm>
#include <vector>

#include "fovea/base/workspace.h"

namespace fovea::kernels {
void pack_narrow_rows(const NarrowPack& pack, Executor& executor) {
  constexpr int64_t kRowsOfTask = 256;  // with fewer, starting threads takes longer
  const auto head = [&](int64_t h) {
    with_isa([&](auto tag) { NarrowRowsKernel<decltype(tag)::kIsa>::pack(pack, h); });
  };
  if (pack.count * pack.num_heads <= kRowsOfTask) {
    for (int64_t h = 0; h < pack.num_heads; ++h) head(h);
    return;
  }
  executor.run(pack.num_heads, [&](int64_t h, int) { head(h); });
}

std::vector<int64_t> attend_narrow_rows(const NarrowStep& step, Executor& executor) {
  const int64_t each = narrow_result_floats(step.head_dim), key_heads = step.num_heads / step.share;
  std::vector<NarrowPart> parts;
  std::vector<int64_t> first_parts = {0}, not_finite;  // first_parts: of each row
  for (int64_t row = 0; row < step.count; ++row) {
    for (int64_t begin = 0; begin < step.lengths[row]; begin += kNarrowPartKeys) {
      parts.push_back({.row = row, .begin = begin, .count = std::min(kNarrowPartKeys, step.lengths[row] - begin)});
    }
    first_parts.push_back(std::ssize(parts));
  }
  // [parts][heads][each]
  const Aligned<float> results = aligned<float>(std::ssize(parts) * step.num_heads * each);
  const int64_t stride = step.num_heads * each;
  with_isa([&](auto tag) {
    using Level = NarrowRowsKernel<decltype(tag)::kIsa>;
    executor.run(std::ssize(parts) * key_heads, [&](int64_t i, int) {
      NarrowPart part = parts[static_cast<size_t>(i / key_heads)];
      part.key_head = i % key_heads;
      part.results = results.get() + i / key_heads * stride + part.key_head * step.share * each;
      Level::attend(step, part);
    });
    const auto join = [&](int64_t row) {
      const int64_t first = first_parts[static_cast<size_t>(row)];
      const int64_t count = first_parts[static_cast<size_t>(row) + 1] - first;
      bool is_finite = true;
      for (int64_t head = 0; head < step.num_heads; ++head)
        is_finite &= Level::join(step, row, head, results.get() + first * stride + head * each, count, stride);
      return is_finite;
    };
    for (int64_t row = 0; row < step.count; ++row) {
      if (!join(row)) not_finite.push_back(row);
    }
  });
  return not_finite;
}

}  // namespace fovea::kernels
