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
  template <class T>
  static PackedSize size(const LayerWeights<T>& from, LayerFormat format);
  template <class T>
  static void fill(const LayerWeights<T>& from, int64_t panel, PrepackedLayer& to);
  template <class T>
  static void run(const LayerRows<T>& job, Executor& executor);
  static int64_t run(const NextWords& job, Executor& executor);
};

}  // namespace fovea::kernels
