#pragma once
#include "fovea/kernels/layer/head_norm.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// head_norm.h at one instruction-set level.
template <Isa kLevel>
struct HeadNorms {
  static void forward(const HeadNorm<float>& job, float* y, Executor& executor);
  static void forward(const HeadNorm<uint16_t>& job, uint16_t* y, Executor& executor);
  static void backward(const HeadNorm<float>& job, const HeadNormGrads<float>& grads, Executor& executor);
  static void backward(const HeadNorm<uint16_t>& job, const HeadNormGrads<uint16_t>& grads, Executor& executor);
};

}  // namespace fovea::kernels
