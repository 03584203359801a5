#pragma once
#include "fovea/kernels/layer/product.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// product.h at one instruction-set level.
template <Isa kLevel>
struct Products {
  static void run(const RowProduct<float>& job, Executor& executor);
  static void run(const RowProduct<uint16_t>& job, Executor& executor);
  static void run(const TokenSum<float>& job, Executor& executor);
  static void run(const TokenSum<uint16_t>& job, Executor& executor);
};

}  // namespace fovea::kernels
