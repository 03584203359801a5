#pragma once

namespace fovea {

// Keeps large buffers in the heap between training steps. By default glibc maps and unmaps each one, and the kernel
// faults every page of it in again: more than half of a step's time at translation sizes.
void tune_malloc();

}  // namespace fovea
