#pragma once
#include <thread>

#include "fovea/spec/run_options.h"

namespace fovea::tasks {

// Threads that turn text into tokens: --cpu-threads, or all.
inline int encoding_threads(const MachineOptions& options) {
  return options.cpu_threads > 0 ? static_cast<int>(options.cpu_threads)
                                 : static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace fovea::tasks
