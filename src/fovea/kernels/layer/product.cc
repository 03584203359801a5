#include "fovea/kernels/layer/product.h"

#include <type_traits>

#include "fovea/kernels/layer/product_isa.h"

namespace fovea::kernels {
namespace {

// Below this many multiplications waking another thread costs more than it brings.
constexpr int64_t kWorthThreads = 1 << 20;

template <class Job>
void run(const Job& job, Executor& executor) {
  if (job.rows == 0 || job.columns == 0) return;
  SerialExecutor serial;
  Executor& chosen = job.rows * job.columns * job.depth < kWorthThreads ? serial : executor;
  const auto work = [&](auto tag) { Products<decltype(tag)::kIsa>::run(job, chosen); };
  if constexpr (std::is_same_v<decltype(*job.a), const float&>) {
    with_isa(work);  // products of floats have no tiles
  } else {
    with_tiled_isa(work);
  }
}

}  // namespace

void multiply(const RowProduct<float>& job, Executor& executor) { run(job, executor); }
void multiply(const RowProduct<uint16_t>& job, Executor& executor) { run(job, executor); }
void multiply(const TokenSum<float>& job, Executor& executor) { run(job, executor); }
void multiply(const TokenSum<uint16_t>& job, Executor& executor) { run(job, executor); }

}  // namespace fovea::kernels
