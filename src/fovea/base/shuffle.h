#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"

namespace fovea {

// Fisher and Yates's shuffle. Unlike the order of std::shuffle, its order does not depend on the standard library.
template <class T>
void shuffle(std::vector<T>& items, Rng& rng) {
  // The places of some exchanges are drawn ahead, so that memory is asked for early: a vector of a hundred million
  // numbers is in no cache.
  constexpr size_t kAhead = 64;
  std::array<size_t, kAhead> places;
  for (size_t left = items.size(); left > 1;) {
    const size_t count = std::min(kAhead, left - 1);
    for (size_t i = 0; i < count; ++i) {
      places[i] = rng.below(left - i);
      __builtin_prefetch(&items[places[i]], 1);
    }
    for (size_t i = 0; i < count; ++i) std::swap(items[left - i - 1], items[places[i]]);
    left -= count;
  }
}

}  // namespace fovea
