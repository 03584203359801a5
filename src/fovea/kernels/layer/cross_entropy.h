#pragma once
#include <cstdint>

#include "fovea/base/executor.h"

namespace fovea::kernels {

// Projection to the vocabulary, log-softmax, label-smoothed loss and all gradients, some tokens at a time: the logits
// of a block of tokens never leave the last-level cache. T is float, or uint16_t for the bits of bfloat16.
//   logits = hidden weight^T + bias, or with a softcap c > 0: c tanh((hidden weight^T + bias) / c)
//   nll = -log p(target);  loss = (1 - s) nll + s mean over the vocabulary of -log p
template <class T>
struct CrossEntropyJob {
  const T* hidden = nullptr;         // [tokens, width]
  const T* weight = nullptr;         // [vocabulary, width]
  const T* bias = nullptr;           // [vocabulary] or null
  const int64_t* targets = nullptr;  // [tokens], in [0, vocabulary)
  int64_t tokens = 0, width = 0, vocabulary = 0;
  float smoothing = 0;
  double softcap = 0;
  float* nll = nullptr;   // [tokens]
  float* loss = nullptr;  // [tokens] or null
  // [tokens] or null: whether the target's logit is the greatest, as the kernel rounds logits; false where nll is NaN.
  bool* best = nullptr;
  // Gradients of the sum of losses. grad_weight null: no gradients are computed; grad_bias null: only that one is not.
  T* grad_hidden = nullptr;
  T* grad_weight = nullptr;
  T* grad_bias = nullptr;
};

void cross_entropy(const CrossEntropyJob<float>& job, Executor& executor);
void cross_entropy(const CrossEntropyJob<uint16_t>& job, Executor& executor);

}  // namespace fovea::kernels
