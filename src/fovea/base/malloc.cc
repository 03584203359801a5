#include "fovea/base/malloc.h"

#include <malloc.h>

namespace fovea {

void tune_malloc() {
  // M_MMAP_THRESHOLD itself cannot be set above 32 MiB; logits and activations are larger.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace fovea
