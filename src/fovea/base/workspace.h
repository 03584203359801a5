#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

// Scratch buffers. Freed buffers below 32 MiB are kept for the next call, up to 128 MiB together, because in short
// calls fresh pages cost more than the work itself.
namespace fovea {

void* take_workspace(size_t bytes);  // aligned to 64, not initialised; up to 64 bytes past the end may be read
void return_workspace(void* workspace);
size_t workspace_bytes_kept();

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
class GrowingArray {
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

}  // namespace fovea
