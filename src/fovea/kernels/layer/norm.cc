#include "fovea/kernels/layer/norm.h"

#include "fovea/kernels/layer/norm_isa.h"

namespace fovea::kernels {
namespace {

// Below this many elements waking another thread costs more than it brings.
constexpr int64_t kWorthThreads = 1 << 15;

template <class Job>
void run(const Job& job, int64_t elements, Executor& executor) {
  SerialExecutor serial;
  Executor& chosen = elements < kWorthThreads ? serial : executor;
  with_isa([&](auto tag) { Norms<decltype(tag)::kIsa>::run(job, chosen); });
}

}  // namespace

void norm_forward(const NormForward<float>& job, Executor& executor) { run(job, job.rows * job.width, executor); }
void norm_forward(const NormForward<uint16_t>& job, Executor& executor) { run(job, job.rows * job.width, executor); }
void norm_backward(const NormBackward<float>& job, Executor& executor) { run(job, job.rows * job.width, executor); }
void norm_backward(const NormBackward<uint16_t>& job, Executor& executor) { run(job, job.rows * job.width, executor); }
void drop(const DropoutPass<float>& job, Executor& executor) { run(job, job.count, executor); }
void drop(const DropoutPass<uint16_t>& job, Executor& executor) { run(job, job.count, executor); }

}  // namespace fovea::kernels
