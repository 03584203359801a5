#pragma once
#include <span>

#include "fovea/kernels/layer/update.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// update.h at one instruction-set level; `order` lists the tokens by id, those of one id in their own order.
template <Isa kLevel>
struct Updates {
  static void run(const EmbedForward<float>& job, Executor& executor);
  static void run(const EmbedForward<uint16_t>& job, Executor& executor);
  static void run(const EmbedBackward<float>& job, std::span<const int64_t> order, Executor& executor);
  static void run(const EmbedBackward<uint16_t>& job, std::span<const int64_t> order, Executor& executor);
  static void run(const AdamPass<float>& job, Executor& executor);
  static void run(const AdamPass<uint16_t>& job, Executor& executor);
  static void run(const AdagradPass& job, Executor& executor);
};

}  // namespace fovea::kernels
