#pragma once
#include <cstddef>
#include <cstdint>

#include "fovea/base/workspace.h"

namespace fovea::kernels {

// Memory that only grows, for one type of elements at a time: one per thread and use, so that a training step allocates
// nothing again.
class Scratch {
 public:
  template <class T>
  T* get(int64_t count) {
    return reinterpret_cast<T*>(bytes_.at_least(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  GrowingArray<std::byte> bytes_;
};

// The uses of a thread's scratch; a job may hold several of them at once, but not the same one twice.
enum class Use : uint8_t {
  kSums,
  kLeft,
  kRight,
  kPanels,
  kLogits,
  kGradient,
  kRightPanels,
  kTokens,
  kPartialSums,
  kWeightSums,
  kStatistics,
  kCount
};

// The calling thread's scratch; what it held is lost when it grows.
inline Scratch& thread_scratch(Use use) {
  static thread_local Scratch scratch[static_cast<size_t>(Use::kCount)];
  return scratch[static_cast<size_t>(use)];
}

}  // namespace fovea::kernels
