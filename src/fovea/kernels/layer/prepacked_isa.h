#pragma once
#include "fovea/kernels/layer/prepacked.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

struct PackedSize {
  int64_t panels = 0, steps = 0, padded_columns = 0;
};

// prepacked.h at one instruction-set level.
template <Isa kLevel>
struct PrepackedLayers {
  static PackedSize size(const LayerWeights<float>& from, LayerFormat format);
  static PackedSize size(const LayerWeights<uint16_t>& from, LayerFormat format);
  static void fill(const LayerWeights<float>& from, int64_t panel, PrepackedLayer& to);
  static void fill(const LayerWeights<uint16_t>& from, int64_t panel, PrepackedLayer& to);
  static void run(const LayerRows<float>& job, Executor& executor);
  static void run(const LayerRows<uint16_t>& job, Executor& executor);
  static int64_t run(const NextWords& job, Executor& executor);
};

}  // namespace fovea::kernels
