#pragma once
#include "fovea/base/executor.h"

namespace fovea::stable {

// Torch's threads.
Executor& torch_executor();
// For work on `numbers` numbers: torch's threads, or the calling thread alone if waking the others costs more.
Executor& executor_for(int64_t numbers);

}  // namespace fovea::stable
