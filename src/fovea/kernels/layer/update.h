#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/kernels/layer/norm.h"

// The two ends of a step: rows of the embedding in, the optimiser's pass over all parameters out.
namespace fovea::kernels {

// out = dropout(scale weight[ids] + positions[position]); the id -1 stands for a row of zeros.
template <class T>
struct EmbedForward {
  const int64_t* ids = nullptr;       // [tokens], in [-1, vocabulary)
  const int64_t* position = nullptr;  // [tokens] or null
  const T* weight = nullptr;          // [vocabulary, width]
  const T* positions = nullptr;       // [positions, width] or null
  T* out = nullptr;                   // [tokens, width]
  int64_t tokens = 0, width = 0;
  float scale = 1;
  DropoutMask dropout = {};
};

// grad_weight[v] = scale times the sum, in the tokens' order, of dropout(grad) over the tokens with ids[t] = v.
template <class T>
struct EmbedBackward {
  const int64_t* ids = nullptr;  // [tokens]
  const T* grad = nullptr;       // [tokens, width]
  T* grad_weight = nullptr;      // [vocabulary, width], written whole
  int64_t tokens = 0, vocabulary = 0, width = 0;
  float scale = 1;
  DropoutMask dropout = {};
};

// Kingma and Ba (2015) with decoupled weight decay; G is float, or uint16_t for the bits of bfloat16.
template <class G>
struct AdamPass {
  float* params = nullptr;    // [count]
  float* mean = nullptr;      // [count]
  float* variance = nullptr;  // [count]
  const G* grads = nullptr;   // [count]
  uint16_t* copy = nullptr;   // [count] or null: the parameters rounded to bfloat16
  int64_t count = 0;
  double beta1 = 0, beta2 = 0;  // in double: of 1 - beta float would keep few digits
  float eps = 0;
  float rate = 0;                 // learning rate / (1 - beta1^step)
  float variance_correction = 1;  // 1 / (1 - beta2^step)
  float decay = 0;                // learning rate * weight decay
  float grad_scale = 1;
};

// Duchi et al. (2011): sum += g^2, params -= rate g / (sqrt(sum) + eps) with g = grad_scale grads.
struct AdagradPass {
  float* params = nullptr;       // [count]
  float* sum = nullptr;          // [count], of the squared gradients so far
  const float* grads = nullptr;  // [count]
  uint16_t* copy = nullptr;      // [count] or null: the parameters rounded to bfloat16
  int64_t count = 0;
  float eps = 0, rate = 0, grad_scale = 1;
};

void embed(const EmbedForward<float>& job, Executor& executor);
void embed(const EmbedForward<uint16_t>& job, Executor& executor);
void embed(const EmbedBackward<float>& job, Executor& executor);
void embed(const EmbedBackward<uint16_t>& job, Executor& executor);
void adam(const AdamPass<float>& job, Executor& executor);
void adam(const AdamPass<uint16_t>& job, Executor& executor);
void adagrad(const AdagradPass& job, Executor& executor);

}  // namespace fovea::kernels
