#pragma once
#include "fovea/kernels/simd/isa.h"
#include "fovea/kernels/step/packed.h"

namespace fovea::kernels {

struct PackedSize {
  int64_t panels = 0, steps = 0, padded_columns = 0;
};

// packed.h at one instruction-set level.
template <Isa kLevel>
struct PackedLayers {
  static PackedSize size(const LayerWeights<float>& from, LayerFormat format);
  static PackedSize size(const LayerWeights<uint16_t>& from, LayerFormat format);
  static void fill(const LayerWeights<float>& from, int64_t panel, PackedLayer& to);
  static void fill(const LayerWeights<uint16_t>& from, int64_t panel, PackedLayer& to);
  static void run(const LayerRows<float>& job, Executor& executor);
  static void run(const LayerRows<uint16_t>& job, Executor& executor);
  static int64_t run(const NextWords& job, Executor& executor);
};

}  // namespace fovea::kernels
