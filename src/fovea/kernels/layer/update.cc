#include "fovea/kernels/layer/update.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "fovea/kernels/layer/update_isa.h"

namespace fovea::kernels {
namespace {

template <class T>
void backward(const EmbedBackward<T>& job, Executor& executor) {
  std::vector<int64_t> order(static_cast<size_t>(job.tokens));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return job.ids[a] < job.ids[b]; });
  with_isa([&](auto tag) { Updates<decltype(tag)::kIsa>::run(job, order, executor); });
}

template <class Job>
void run(const Job& job, Executor& executor) {
  with_isa([&](auto tag) { Updates<decltype(tag)::kIsa>::run(job, executor); });
}

}  // namespace

void embed(const EmbedForward<float>& job, Executor& executor) { run(job, executor); }
void embed(const EmbedForward<uint16_t>& job, Executor& executor) { run(job, executor); }
void embed(const EmbedBackward<float>& job, Executor& executor) { backward(job, executor); }
void embed(const EmbedBackward<uint16_t>& job, Executor& executor) { backward(job, executor); }
void adam(const AdamPass<float>& job, Executor& executor) { run(job, executor); }
void adam(const AdamPass<uint16_t>& job, Executor& executor) { run(job, executor); }
void adagrad(const AdagradPass& job, Executor& executor) { run(job, executor); }

}  // namespace fovea::kernels
