#include "fovea/kernels/layer/update.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/dropout.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/element-inl.h"
#include "fovea/kernels/layer/mask-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kTokens = 64;         // of a piece of the embedding
constexpr int64_t kWords = 512;         // of a piece of its gradient
constexpr int64_t kElements = 1 << 14;  // of a piece of the optimiser

template <class T>
void embed_token(const EmbedForward<T>& job, int64_t t, Mask& mask) {
  const T* word = job.ids[t] < 0 ? nullptr : job.weight + job.ids[t] * job.width;
  const T* place = job.positions == nullptr ? nullptr : job.positions + job.position[t] * job.width;
  for (int64_t i = 0; i < job.width; i += kLanes) {
    const int64_t n = job.width - i;
    F value = word == nullptr ? set(0) : load_some(word + i, n) * set(job.scale);
    if (place != nullptr) value = value + load_some(place + i, n);
    store_some(job.out + t * job.width + i, mask.apply(value, t * job.width + i), n);
  }
}

template <class T>
void run_job(const EmbedForward<T>& job, Executor& executor) {
  executor.run((job.tokens + kTokens - 1) / kTokens, [&](int64_t piece, int) {
    Mask mask(job.dropout);
    const int64_t end = std::min((piece + 1) * kTokens, job.tokens);
    for (int64_t t = piece * kTokens; t < end; ++t) embed_token(job, t, mask);
  });
}

// Sums of the tokens of one word, in their order; `sums` [padded width] is scratch.
template <class T>
void word_gradient(const EmbedBackward<T>& job, std::span<const int64_t> tokens, Mask& mask, float* sums) {
  const int64_t width = job.width;
  for (int64_t i = 0; i < width; i += kLanes) store(sums + i, set(0));
  for (const int64_t t : tokens) {
    for (int64_t i = 0; i < width; i += kLanes) {
      const F grad = mask.apply(load_some(job.grad + t * width + i, width - i), t * width + i);
      store(sums + i, load(sums + i) + grad);
    }
  }
  T* to = job.grad_weight + job.ids[tokens[0]] * width;
  for (int64_t i = 0; i < width; i += kLanes) store_some(to + i, load(sums + i) * set(job.scale), width - i);
}

template <class T>
void word_gradients(const EmbedBackward<T>& job, std::span<const int64_t> order, int64_t first_word) {
  const int64_t end_word = std::min(first_word + kWords, job.vocabulary);
  std::memset(job.grad_weight + first_word * job.width, 0,
              static_cast<size_t>((end_word - first_word) * job.width) * sizeof(T));
  float* sums = thread_scratch(Use::kLeft).get<float>(job.width + kLanes);
  Mask mask(job.dropout);
  const auto before = [&](int64_t t, int64_t word) { return job.ids[t] < word; };
  auto token = std::lower_bound(order.begin(), order.end(), first_word, before);
  const auto end = std::lower_bound(token, order.end(), end_word, before);
  while (token != end) {
    auto next = token + 1;
    while (next != end && job.ids[*next] == job.ids[*token]) ++next;
    word_gradient(job, std::span<const int64_t>(token, next), mask, sums);
    token = next;
  }
}

template <class T>
void run_job(const EmbedBackward<T>& job, std::span<const int64_t> order, Executor& executor) {
  executor.run((job.vocabulary + kWords - 1) / kWords,
               [&](int64_t piece, int) { word_gradients(job, order, piece * kWords); });
}

template <class G>
void adam_piece(const AdamPass<G>& job, int64_t begin) {
  const int64_t end = std::min(begin + kElements, job.count);
  const auto factor = [](double x) { return set(static_cast<float>(x)); };
  const F keep1 = factor(job.beta1), keep2 = factor(job.beta2), new1 = factor(1 - job.beta1),
          new2 = factor(1 - job.beta2);
  const F scale = set(job.grad_scale), rate = set(-job.rate), correction = set(job.variance_correction);
  const F eps = set(job.eps), stay = set(1 - job.decay);
  for (int64_t i = begin; i < end; i += kLanes) {
    const int64_t n = end - i;
    const F grad = load_some(job.grads + i, n) * scale;
    const F mean = fma(new1, grad, load_some(job.mean + i, n) * keep1);
    const F variance = fma(new2 * grad, grad, load_some(job.variance + i, n) * keep2);
    const F change = mean / (sqrt(variance * correction) + eps);
    const F param = fma(rate, change, load_some(job.params + i, n) * stay);
    store_some(job.mean + i, mean, n);
    store_some(job.variance + i, variance, n);
    store_some(job.params + i, param, n);
    if (job.copy != nullptr) store_some(job.copy + i, param, n);
  }
}

template <class G>
void run_job(const AdamPass<G>& job, Executor& executor) {
  executor.run((job.count + kElements - 1) / kElements, [&](int64_t p, int) { adam_piece(job, p * kElements); });
}

void adagrad_piece(const AdagradPass& job, int64_t begin) {
  const int64_t end = std::min(begin + kElements, job.count);
  const F scale = set(job.grad_scale), rate = set(-job.rate), eps = set(job.eps);
  for (int64_t i = begin; i < end; i += kLanes) {
    const int64_t n = end - i;
    const F grad = load_some(job.grads + i, n) * scale;
    const F sum = fma(grad, grad, load_some(job.sum + i, n));
    const F param = fma(rate, grad / (sqrt(sum) + eps), load_some(job.params + i, n));
    store_some(job.sum + i, sum, n);
    store_some(job.params + i, param, n);
    if (job.copy != nullptr) store_some(job.copy + i, param, n);
  }
}

void run_job(const AdagradPass& job, Executor& executor) {
  executor.run((job.count + kElements - 1) / kElements, [&](int64_t p, int) { adagrad_piece(job, p * kElements); });
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, EmbedForward<float>>;
template struct AtLevel<kThisIsa, EmbedForward<uint16_t>>;
template struct AtLevel<kThisIsa, EmbedBackward<float>, std::span<const int64_t>>;
template struct AtLevel<kThisIsa, EmbedBackward<uint16_t>, std::span<const int64_t>>;
template struct AtLevel<kThisIsa, AdamPass<float>>;
template struct AtLevel<kThisIsa, AdamPass<uint16_t>>;
template struct AtLevel<kThisIsa, AdagradPass>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
