#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace fovea::kernels {

// Cache-line aligned floats, not initialised.
class AlignedFloats {
 public:
  explicit AlignedFloats(int64_t count)
      : data_(static_cast<float*>(::operator new(static_cast<size_t>(count) * sizeof(float), kAlign))) {}
  float* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlign); }
  };
  std::unique_ptr<float, Free> data_;
};

// Hands out pieces of a block, each on its own cache lines. Over no block it only counts: a layout run twice, first to
// learn its size, then for its pointers.
class Arena {
 public:
  explicit Arena(float* base = nullptr) : base_(base) {}
  float* take(int64_t floats) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (floats + 15) / 16 * 16;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

}  // namespace fovea::kernels
