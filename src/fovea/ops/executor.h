#pragma once
#include "fovea/base/executor.h"

namespace fovea::ops {

// Work on torch's own threads (at::get_num_threads() of them); within a parallel region, in the calling thread.
Executor& torch_executor();

}  // namespace fovea::ops
