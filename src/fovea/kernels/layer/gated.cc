#include "fovea/kernels/layer/gated.h"

#include "fovea/kernels/layer/gated_isa.h"

namespace fovea::kernels {
namespace {

// Below this many elements waking another thread costs more than it brings.
constexpr int64_t kGatedWorthThreads = 1 << 13;

template <class Job>
void run_gated(const Job& job, Executor& executor) {
  SerialExecutor serial;
  Executor& chosen = job.rows * job.width < kGatedWorthThreads ? serial : executor;
  with_isa([&](auto tag) { GatedUnits<decltype(tag)::kIsa>::run(job, chosen); });
}

}  // namespace

void gated(const GatedForward<float>& job, Executor& executor) { run_gated(job, executor); }
void gated(const GatedForward<uint16_t>& job, Executor& executor) { run_gated(job, executor); }
void gated(const GatedBackward<float>& job, Executor& executor) { run_gated(job, executor); }
void gated(const GatedBackward<uint16_t>& job, Executor& executor) { run_gated(job, executor); }

}  // namespace fovea::kernels
