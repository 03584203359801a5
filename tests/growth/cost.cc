#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>

#include "fovea/base/error.h"
#include "growth.h"

// Every allocation of the program, and of the libraries that it calls, is counted here.
namespace {

std::atomic<size_t> allocated_bytes = 0, live_bytes = 0, most_live_bytes = 0;

void* counted(size_t size, size_t alignment) {
  void* const memory = alignment > alignof(std::max_align_t)
                           ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                           : std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  const size_t usable = malloc_usable_size(memory);
  allocated_bytes += usable;
  const size_t live = live_bytes += usable;
  if (live > most_live_bytes) most_live_bytes = live;
  return memory;
}

void freed(void* memory) {
  if (memory == nullptr) return;
  live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void* operator new(size_t size) { return counted(size, 0); }
void* operator new[](size_t size) { return counted(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) { return counted(size, static_cast<size_t>(alignment)); }
void* operator new[](size_t size, std::align_val_t alignment) { return counted(size, static_cast<size_t>(alignment)); }
void operator delete(void* memory) noexcept { freed(memory); }
void operator delete[](void* memory) noexcept { freed(memory); }
void operator delete(void* memory, size_t) noexcept { freed(memory); }
void operator delete[](void* memory, size_t) noexcept { freed(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { freed(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { freed(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { freed(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { freed(memory); }

namespace fovea::growth {

Cost cost_of(const std::function<void()>& work) {
  Cost cost;
  const size_t live = live_bytes, allocated = allocated_bytes;
  most_live_bytes = live;
  const double begin = thread_seconds();
  try {
    work();
  } catch (const Error& error) {
    cost.refusal = error.what();
  }
  cost.seconds = thread_seconds() - begin;
  cost.bytes = allocated_bytes - allocated;
  cost.peak = most_live_bytes - live;
  return cost;
}

}  // namespace fovea::growth
