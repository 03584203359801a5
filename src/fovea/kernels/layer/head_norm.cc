#include "fovea/kernels/layer/head_norm.h"

#include "fovea/kernels/layer/head_norm_isa.h"

namespace fovea::kernels {
namespace {

// Below this many elements waking another thread costs more than it brings.
constexpr int64_t kWorthThreads = 1 << 15;

// work(HeadNorms<level>, executor)
template <class T, class Work>
void at_this_level(const HeadNorm<T>& job, Executor& executor, Work&& work) {
  SerialExecutor serial;
  Executor& chosen = job.rows * job.width < kWorthThreads ? serial : executor;
  with_isa([&](auto tag) { work(HeadNorms<decltype(tag)::kIsa>{}, chosen); });
}

template <class T>
void forward(const HeadNorm<T>& job, T* y, Executor& executor) {
  at_this_level(job, executor, [&](auto level, Executor& chosen) { level.forward(job, y, chosen); });
}

template <class T>
void backward(const HeadNorm<T>& job, const HeadNormGrads<T>& grads, Executor& executor) {
  at_this_level(job, executor, [&](auto level, Executor& chosen) { level.backward(job, grads, chosen); });
}

}  // namespace

void head_norm(const HeadNorm<float>& job, float* y, Executor& executor) { forward(job, y, executor); }
void head_norm(const HeadNorm<uint16_t>& job, uint16_t* y, Executor& executor) { forward(job, y, executor); }
void head_norm_backward(const HeadNorm<float>& job, const HeadNormGrads<float>& grads, Executor& executor) {
  backward(job, grads, executor);
}
void head_norm_backward(const HeadNorm<uint16_t>& job, const HeadNormGrads<uint16_t>& grads, Executor& executor) {
  backward(job, grads, executor);
}

}  // namespace fovea::kernels
