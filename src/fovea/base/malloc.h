#pragma once

namespace fovea {

// Keeps large buffers in the heap between training steps. By default glibc maps and unmaps each one, and the kernel
// faults every page of it in again: more than half of a step's time at translation sizes.
void tune_malloc();

// Gives pages that nothing uses back to the system, except for some: what a large request took would otherwise stay
// with a server for ever.
void return_free_memory();

}  // namespace fovea
