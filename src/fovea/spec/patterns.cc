#include "fovea/spec/patterns.h"

#include <numeric>

#include "fovea/base/rng.h"

namespace fovea {

std::vector<int64_t> random_keys(int64_t k, int64_t limit, uint64_t stream, int64_t query) {
  std::vector<int64_t> keys(static_cast<size_t>(std::clamp<int64_t>(k, 0, std::max<int64_t>(limit, 0))));
  if (limit <= k) {
    std::iota(keys.begin(), keys.end(), 0);
    return keys;
  }
  Rng rng(stream, static_cast<uint64_t>(query));
  auto end = keys.begin();
  for (int64_t last = limit - k; last < limit; ++last, ++end) {
    const auto drawn = static_cast<int64_t>(rng.below(static_cast<uint64_t>(last) + 1));
    const auto at = std::lower_bound(keys.begin(), end, drawn);
    if (at != end && *at == drawn) {
      *end = last;  // greater than all so far
    } else {
      std::move_backward(at, end, end + 1);
      *at = drawn;
    }
  }
  return keys;
}

}  // namespace fovea
