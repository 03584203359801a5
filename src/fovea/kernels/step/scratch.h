#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace fovea::kernels {

// Memory on 64-byte lines that only grows: one a thread and use, so that a training step allocates nothing anew.
class Scratch {
 public:
  template <class T>
  T* get(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      data_.reset();
      bytes_ = 0;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
      if (!data_) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

// What a thread's scratch is for; a job may hold several of them at once, but not the same one twice.
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
