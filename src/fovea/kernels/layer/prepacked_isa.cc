#include "fovea/kernels/layer/prepacked_isa.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"
//
#include "fovea/kernels/simd/simd-inl.h"
//
#include "fovea/kernels/layer/element-inl.h"
//
#include "fovea/kernels/layer/tile-inl.h"
//
#include "fovea/kernels/layer/pack-inl.h"
//
#include "fovea/kernels/layer/emit-inl.h"
//
#include "fovea/kernels/layer/int8-inl.h"
//
#include "fovea/kernels/layer/row_block-inl.h"
//
#include "fovea/kernels/layer/next_words-inl.h"

namespace fovea::kernels {
namespace {

template <class T>
PackedSize packed_size(const LayerWeights<T>& from, LayerFormat format) {
  const int64_t panels = pieces_of(from.columns, kTileColumns);
  const bool int8 = format == LayerFormat::kInt8;
  const int64_t steps = int8 ? steps_of<AnyBytes>(from.depth) : steps_of<typename StepOf<T>::type>(from.depth);
  return {panels, steps, panels * kTileColumns};
}

template <class T>
void fill_panel(const LayerWeights<T>& from, int64_t panel, PrepackedLayer& to) {
  const int64_t first = panel * kTileColumns, columns = std::min<int64_t>(kTileColumns, from.columns - first);
  const T* weight = from.weight + first * from.depth;
  float* words = to.panel(first);
  if (to.format() == LayerFormat::kInt8) {
    pack_int8(weight, from.depth, columns, words, to.scales() + first);
  } else {
    pack_transposed<typename StepOf<T>::type>(weight, from.depth, from.depth, columns, words);
  }
  for (int64_t n = 0; n < kTileColumns; ++n) {
    const float bias = n >= columns ? -kInfinity : from.bias == nullptr ? 0.0F : to_float(from.bias[first + n]);
    to.bias()[first + n] = bias;
  }
}

template <class T>
void layer_rows(const LayerRows<T>& job, Executor& executor) {
  const PrepackedLayer& layer = *job.layer;
  const RowsOf<T, float> rows{.a = {job.a, nullptr, job.a_stride, 0},
                              .panels = layer.panel(0),
                              .bias = layer.bias(),
                              .out = job.out,
                              .out_stride = job.out_stride,
                              .columns = layer.columns(),
                              .depth = layer.depth(),
                              .relu = job.relu};
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) {
    if (layer.format() == LayerFormat::kExact) return row_block(rows, first, count);
    const Int8Rows<T> left(rows.a.at(first, 0), count, layer.depth());
    const BytesSession session;
    for (int64_t column = 0; column < layer.columns(); column += kTileColumns) {
      Finish<T, float> finish = finish_of(rows, first, column);
      left.multiply(layer.panel(column), layer.scales() + column, finish);
    }
  });
}

int64_t all_words(const NextWords& job, Executor& executor) {
  std::atomic<int64_t> bad = 0;
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) { bad += WordsBlock(job, first, count).run(); });
  return bad;
}

}  // namespace

template <Isa kLevel>
PackedSize PrepackedLayers<kLevel>::size(const LayerWeights<float>& from, LayerFormat format) {
  return packed_size(from, format);
}
template <Isa kLevel>
PackedSize PrepackedLayers<kLevel>::size(const LayerWeights<uint16_t>& from, LayerFormat format) {
  return packed_size(from, format);
}
template <Isa kLevel>
void PrepackedLayers<kLevel>::fill(const LayerWeights<float>& from, int64_t panel, PrepackedLayer& to) {
  fill_panel(from, panel, to);
}
template <Isa kLevel>
void PrepackedLayers<kLevel>::fill(const LayerWeights<uint16_t>& from, int64_t panel, PrepackedLayer& to) {
  fill_panel(from, panel, to);
}
template <Isa kLevel>
void PrepackedLayers<kLevel>::run(const LayerRows<float>& job, Executor& executor) {
  layer_rows(job, executor);
}
template <Isa kLevel>
void PrepackedLayers<kLevel>::run(const LayerRows<uint16_t>& job, Executor& executor) {
  layer_rows(job, executor);
}
template <Isa kLevel>
int64_t PrepackedLayers<kLevel>::run(const NextWords& job, Executor& executor) {
  return all_words(job, executor);
}
template struct PrepackedLayers<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
