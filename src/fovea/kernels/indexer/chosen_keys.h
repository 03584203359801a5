#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "fovea/base/workspace.h"

namespace fovea::kernels {

// The keys that an indexer chose: element (sequence, query, place) of [batch, queries, count] is a key of the query's
// sequence, or -1 for none.
struct ChosenKeys {
  const int32_t* indices = nullptr;
  int64_t batch = 0, queries = 0, keys = 0, count = 0;  // keys: of each sequence
};

// The keys of one query without the places that hold none, ascending, and the places where they stand.
class ChosenList {
 public:
  explicit ChosenList(int64_t count) : keys_(aligned<int32_t>(count)), places_(aligned<int32_t>(count)) {}

  void read(const int32_t* indices, int64_t count) {
    size_ = 0;
    bool ascend = true;
    for (int64_t i = 0; i < count; ++i) {
      if (indices[i] < 0) continue;
      ascend = ascend && (size_ == 0 || keys_[static_cast<size_t>(size_ - 1)] <= indices[i]);
      keys_[static_cast<size_t>(size_)] = indices[i];
      places_[static_cast<size_t>(size_++)] = static_cast<int32_t>(i);
    }
    if (ascend) return;
    std::ranges::sort(places_.get(), places_.get() + size_, {}, [&](int32_t place) { return indices[place]; });
    for (int64_t i = 0; i < size_; ++i) keys_[static_cast<size_t>(i)] = indices[places_[static_cast<size_t>(i)]];
  }

  int64_t size() const { return size_; }
  const int32_t* keys() const { return keys_.get(); }
  const int32_t* places() const { return places_.get(); }

 private:
  Aligned<int32_t> keys_, places_;
  int64_t size_ = 0;
};

}  // namespace fovea::kernels
