#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

// Workspaces. Freed ones are kept for the next call: fresh pages cost more than what short calls do with them.
namespace fovea::kernels {

void* take_workspace(size_t bytes);  // aligned to 64, not initialised
void return_workspace(void* workspace);

struct ReturnWorkspace {
  void operator()(void* p) const { return_workspace(p); }
};
template <class T>
using Aligned = std::unique_ptr<T[], ReturnWorkspace>;
template <class T>
Aligned<T> aligned(int64_t count) {
  return Aligned<T>(static_cast<T*>(take_workspace(static_cast<size_t>(count) * sizeof(T))));
}

// An array that only grows. Never null once asked for, so that one may step over a sequence without rows.
template <class T>
class Grown {
 public:
  T* at_least(int64_t count) {
    if (size_ < count || data_ == nullptr) {
      data_.reset();
      data_ = aligned<T>(count);
      size_ = count;
    }
    return data_.get();
  }
  T* get() const { return data_.get(); }

 private:
  Aligned<T> data_;
  int64_t size_ = 0;
};

}  // namespace fovea::kernels
