#include "fovea/base/malloc.h"

#include <malloc.h>

namespace fovea {

void tune_malloc() {
  // M_MMAP_THRESHOLD itself cannot be set above 32 MiB; logits and activations are larger.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  // Arenas of further threads, such as the one that runs backward, are heaps of 64 MiB that are unmapped when they are
  // free and faulted in again.
  mallopt(M_ARENA_MAX, 1);
}

void return_free_memory() {
  constexpr size_t kKept = size_t{64} << 20;
  malloc_trim(kKept);
}

}  // namespace fovea
