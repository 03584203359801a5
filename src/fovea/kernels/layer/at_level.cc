#include "fovea/kernels/layer/at_level.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "fovea/kernels/layer/adafactor.h"
#include "fovea/kernels/layer/cross_entropy.h"
#include "fovea/kernels/layer/gated.h"
#include "fovea/kernels/layer/head_norm.h"
#include "fovea/kernels/layer/norm.h"
#include "fovea/kernels/layer/product.h"
#include "fovea/kernels/layer/rotary.h"
#include "fovea/kernels/layer/ssru.h"
#include "fovea/kernels/layer/update.h"

// The functions of this folder's headers: the level of this machine, and whether a job is worth its threads.
namespace fovea::kernels {
namespace {

template <class... Job>
void run(Executor& executor, const Job&... job) {
  with_isa([&](auto tag) { AtLevel<decltype(tag)::kIsa, Job...>::run(job..., executor); });
}

template <class Job>
void run_tiled(Executor& executor, const Job& job) {
  with_tiled_isa([&](auto tag) { AtLevel<decltype(tag)::kIsa, Job>::run(job, executor); });
}

// `executor` for work of at least this size: below it, waking another thread costs more than it brings.
Executor& worth(int64_t work, int64_t least, Executor& executor) {
  static SerialExecutor serial;
  return work < least ? serial : executor;
}

constexpr int64_t kFewElements = 1 << 15, kFewActivated = 1 << 13, kFewMultiplications = 1 << 20;

template <class Job>
void run_norm(const Job& job, Executor& executor) {
  run(worth(job.rows * job.width, kFewElements, executor), job);
}

template <class T>
void run_drop(const DropoutPass<T>& job, Executor& executor) {
  run(worth(job.count, kFewElements, executor), job);
}

template <class T, class Other>
void run_head_norm(const HeadNorm<T>& job, const Other& other, Executor& executor) {
  run(worth(job.rows * job.width, kFewElements, executor), job, other);
}

template <class T>
void run_rotary(const RotaryPass<T>& job, Executor& executor) {
  run(worth(job.tokens * job.heads * job.head_dim, kFewElements, executor), job);
}

template <class Job>
void run_gated(const Job& job, Executor& executor) {
  run(worth(job.rows * job.width, kFewActivated, executor), job);
}

template <class Job>
void run_ssru(const Job& job, Executor& executor) {
  if (job.sequences == 0) return;
  run(worth(job.offsets[job.sequences] * job.width, kFewActivated, executor), job);
}

template <class Job>
void run_product(const Job& job, Executor& executor) {
  if (job.rows == 0 || job.columns == 0) return;
  Executor& chosen = worth(job.rows * job.columns * job.depth, kFewMultiplications, executor);
  if constexpr (std::is_same_v<decltype(*job.a), const float&>) {
    run(chosen, job);  // products of floats have no tiles
  } else {
    run_tiled(chosen, job);
  }
}

template <class T>
void run_embed_backward(const EmbedBackward<T>& job, Executor& executor) {
  std::vector<int64_t> order(static_cast<size_t>(job.tokens));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return job.ids[a] < job.ids[b]; });
  run(executor, job, std::span<const int64_t>(order));
}

}  // namespace

void norm_forward(const NormForward<float>& job, Executor& executor) { run_norm(job, executor); }
void norm_forward(const NormForward<uint16_t>& job, Executor& executor) { run_norm(job, executor); }
void norm_backward(const NormBackward<float>& job, Executor& executor) { run_norm(job, executor); }
void norm_backward(const NormBackward<uint16_t>& job, Executor& executor) { run_norm(job, executor); }
void drop(const DropoutPass<float>& job, Executor& executor) { run_drop(job, executor); }
void drop(const DropoutPass<uint16_t>& job, Executor& executor) { run_drop(job, executor); }

void head_norm(const HeadNorm<float>& job, float* y, Executor& executor) { run_head_norm(job, y, executor); }
void head_norm(const HeadNorm<uint16_t>& job, uint16_t* y, Executor& executor) { run_head_norm(job, y, executor); }
void head_norm_backward(const HeadNorm<float>& job, const HeadNormGrads<float>& grads, Executor& executor) {
  run_head_norm(job, grads, executor);
}
void head_norm_backward(const HeadNorm<uint16_t>& job, const HeadNormGrads<uint16_t>& grads, Executor& executor) {
  run_head_norm(job, grads, executor);
}

void rotate(const RotaryPass<float>& job, Executor& executor) { run_rotary(job, executor); }
void rotate(const RotaryPass<uint16_t>& job, Executor& executor) { run_rotary(job, executor); }

void gated(const GatedForward<float>& job, Executor& executor) { run_gated(job, executor); }
void gated(const GatedForward<uint16_t>& job, Executor& executor) { run_gated(job, executor); }
void gated(const GatedBackward<float>& job, Executor& executor) { run_gated(job, executor); }
void gated(const GatedBackward<uint16_t>& job, Executor& executor) { run_gated(job, executor); }

void ssru(const SsruForward<float>& job, Executor& executor) { run_ssru(job, executor); }
void ssru(const SsruForward<uint16_t>& job, Executor& executor) { run_ssru(job, executor); }
void ssru(const SsruBackward<float>& job, Executor& executor) { run_ssru(job, executor); }
void ssru(const SsruBackward<uint16_t>& job, Executor& executor) { run_ssru(job, executor); }

void multiply(const RowProduct<float>& job, Executor& executor) { run_product(job, executor); }
void multiply(const RowProduct<uint16_t>& job, Executor& executor) { run_product(job, executor); }
void multiply(const TokenSum<float>& job, Executor& executor) { run_product(job, executor); }
void multiply(const TokenSum<uint16_t>& job, Executor& executor) { run_product(job, executor); }

void cross_entropy(const CrossEntropyJob<float>& job, Executor& executor) { run(executor, job); }
void cross_entropy(const CrossEntropyJob<uint16_t>& job, Executor& executor) { run_tiled(executor, job); }

void embed(const EmbedForward<float>& job, Executor& executor) { run(executor, job); }
void embed(const EmbedForward<uint16_t>& job, Executor& executor) { run(executor, job); }
void embed(const EmbedBackward<float>& job, Executor& executor) { run_embed_backward(job, executor); }
void embed(const EmbedBackward<uint16_t>& job, Executor& executor) { run_embed_backward(job, executor); }
void adam(const AdamPass<float>& job, Executor& executor) { run(executor, job); }
void adam(const AdamPass<uint16_t>& job, Executor& executor) { run(executor, job); }
void adagrad(const AdagradPass& job, Executor& executor) { run(executor, job); }
void adafactor(const AdafactorPass& job, Executor& executor) { run(executor, job); }

}  // namespace fovea::kernels
