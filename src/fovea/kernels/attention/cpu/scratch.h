#pragma once
#include <algorithm>
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

// One scratch space a worker, as large as the largest task needs: floats(task).
class WorkerScratch {
 public:
  template <class Tasks, class Floats>
  WorkerScratch(const Tasks& tasks, int workers, const Floats& floats)
      : each_(most(tasks, floats)), block_(each_ * workers) {}
  float* of(int worker) const { return block_.data() + each_ * worker; }

 private:
  template <class Tasks, class Floats>
  static int64_t most(const Tasks& tasks, const Floats& floats) {
    int64_t most = 16;
    for (const auto& task : tasks) most = std::max<int64_t>(most, floats(task));
    return (most + 15) / 16 * 16;
  }
  int64_t each_;
  AlignedFloats block_;
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
