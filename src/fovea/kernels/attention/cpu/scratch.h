#pragma once
#include <algorithm>
#include <cstdint>

#include "fovea/base/workspace.h"

namespace fovea::kernels {

// One scratch space per worker, of `floats` floats or as large as the largest task needs: floats(task).
class WorkerScratch {
 public:
  WorkerScratch(int workers, int64_t floats)
      : each_((floats + 15) / 16 * 16), block_(aligned<float>(each_ * workers)) {}
  template <class Tasks, class Floats>
  WorkerScratch(const Tasks& tasks, int workers, const Floats& floats) : WorkerScratch(workers, most(tasks, floats)) {}
  float* of(int worker) const { return block_.get() + each_ * worker; }

 private:
  template <class Tasks, class Floats>
  static int64_t most(const Tasks& tasks, const Floats& floats) {
    int64_t most = 16;
    for (const auto& task : tasks) most = std::max<int64_t>(most, floats(task));
    return most;
  }
  int64_t each_;
  Aligned<float> block_;
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
