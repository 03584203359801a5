#include "fovea/kernels/layer/ssru.h"

#include "fovea/kernels/layer/ssru_isa.h"

namespace fovea::kernels {
namespace {

// Below this many elements waking another thread costs more than it brings.
constexpr int64_t kSsruWorthThreads = 1 << 13;

template <class Job>
void run_ssru(const Job& job, Executor& executor) {
  if (job.sequences == 0) return;
  SerialExecutor serial;
  Executor& chosen = job.offsets[job.sequences] * job.width < kSsruWorthThreads ? serial : executor;
  with_isa([&](auto tag) { SsruUnits<decltype(tag)::kIsa>::run(job, chosen); });
}

}  // namespace

void ssru(const SsruForward<float>& job, Executor& executor) { run_ssru(job, executor); }
void ssru(const SsruForward<uint16_t>& job, Executor& executor) { run_ssru(job, executor); }
void ssru(const SsruBackward<float>& job, Executor& executor) { run_ssru(job, executor); }
void ssru(const SsruBackward<uint16_t>& job, Executor& executor) { run_ssru(job, executor); }

}  // namespace fovea::kernels
