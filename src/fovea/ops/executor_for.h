#pragma once
#include "fovea/ops/executor.h"

namespace fovea::ops {

// For work on `numbers` numbers: torch's threads, or the calling thread alone if waking the others costs more.
inline Executor& executor_for(int64_t numbers) {
  constexpr int64_t kWorthThreads = 1 << 15;
  static SerialExecutor alone;
  return numbers < kWorthThreads ? static_cast<Executor&>(alone) : torch_executor();
}

}  // namespace fovea::ops
