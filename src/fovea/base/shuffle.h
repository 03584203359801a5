#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"

namespace fovea {

// Fisher and Yates's shuffle. Unlike the order of std::shuffle, its order does not depend on the standard library.
template <class T>
void shuffle(std::vector<T>& items, Rng& rng) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.below(i)]);
}

}  // namespace fovea
