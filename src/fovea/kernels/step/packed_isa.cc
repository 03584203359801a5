#include "fovea/kernels/step/packed_isa.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "fovea/kernels/step/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/attention/cpu/isa_begin-inl.h"
//
#include "fovea/kernels/attention/cpu/simd-inl.h"
//
#include "fovea/kernels/step/element-inl.h"
//
#include "fovea/kernels/step/tile-inl.h"
//
#include "fovea/kernels/step/pack-inl.h"
//
#include "fovea/kernels/step/emit-inl.h"
//
#include "fovea/kernels/step/row_block-inl.h"
//
#include "fovea/kernels/step/next_words-inl.h"

namespace fovea::kernels {
namespace {

template <class T>
PackedSize packed_size(const LayerWeights<T>& from) {
  using Step = typename StepOf<T>::type;
  const int64_t panels = pieces_of(from.columns, kTileColumns);
  return {panels, steps_of<Step>(from.depth) * kTileColumns, panels * kTileColumns};
}

template <class T>
void fill_panel(const LayerWeights<T>& from, int64_t panel, PackedLayer& to) {
  using Step = typename StepOf<T>::type;
  const int64_t first = panel * kTileColumns, columns = std::min<int64_t>(kTileColumns, from.columns - first);
  pack_transposed<Step>(from.weight + first * from.depth, from.depth, from.depth, columns,
                        to.panels() + first * steps_of<Step>(from.depth));
  for (int64_t n = 0; n < kTileColumns; ++n) {
    const float bias = n >= columns ? -kInfinity : from.bias == nullptr ? 0.0F : to_float(from.bias[first + n]);
    to.bias()[first + n] = bias;
  }
}

template <class T>
void layer_rows(const LayerRows<T>& job, Executor& executor) {
  const PackedLayer& layer = *job.layer;
  const RowsOf<T, float> rows{.a = {job.a, nullptr, job.a_stride, 0},
                              .panels = layer.panels(),
                              .bias = layer.bias(),
                              .out = job.out,
                              .out_stride = job.out_stride,
                              .columns = layer.columns(),
                              .depth = layer.depth(),
                              .relu = job.relu};
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) { row_block(rows, first, count); });
}

int64_t all_words(const NextWords& job, Executor& executor) {
  std::atomic<int64_t> bad = 0;
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) { bad += WordsBlock(job, first, count).run(); });
  return bad;
}

}  // namespace

template <Isa kLevel>
PackedSize PackedLayers<kLevel>::size(const LayerWeights<float>& from) {
  return packed_size(from);
}
template <Isa kLevel>
PackedSize PackedLayers<kLevel>::size(const LayerWeights<uint16_t>& from) {
  return packed_size(from);
}
template <Isa kLevel>
void PackedLayers<kLevel>::fill(const LayerWeights<float>& from, int64_t panel, PackedLayer& to) {
  fill_panel(from, panel, to);
}
template <Isa kLevel>
void PackedLayers<kLevel>::fill(const LayerWeights<uint16_t>& from, int64_t panel, PackedLayer& to) {
  fill_panel(from, panel, to);
}
template <Isa kLevel>
void PackedLayers<kLevel>::run(const LayerRows<float>& job, Executor& executor) {
  layer_rows(job, executor);
}
template <Isa kLevel>
void PackedLayers<kLevel>::run(const LayerRows<uint16_t>& job, Executor& executor) {
  layer_rows(job, executor);
}
template <Isa kLevel>
int64_t PackedLayers<kLevel>::run(const NextWords& job, Executor& executor) {
  return all_words(job, executor);
}
template struct PackedLayers<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/attention/cpu/isa_end-inl.h"
