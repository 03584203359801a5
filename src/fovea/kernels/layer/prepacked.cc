#include "fovea/kernels/layer/prepacked.h"

#include "fovea/kernels/layer/prepacked_isa.h"

namespace fovea::kernels {
namespace {

// Below this many multiplications waking another thread costs more than it brings.
constexpr int64_t kWorthThreads = 1 << 18;

// Products of floats have no tiles.
enum class Words : uint8_t { kFloats, kNarrow };
template <class T>
Words words_of(LayerFormat format) {
  return sizeof(T) == 4 && format == LayerFormat::kExact ? Words::kFloats : Words::kNarrow;
}

template <class Work>
decltype(auto) at_this_level(Words words, Work&& work) {
  const auto at_level = [&](auto tag) { return work(PrepackedLayers<decltype(tag)::kIsa>{}); };
  return words == Words::kFloats ? with_isa(at_level) : with_tiled_isa(at_level);
}

template <class T>
void run(const LayerRows<T>& job, Executor& executor) {
  if (job.rows == 0 || job.layer->columns() == 0) return;
  SerialExecutor serial;
  const bool small = job.rows * job.layer->columns() * job.layer->depth() < kWorthThreads;
  const Words words = words_of<T>(job.layer->format());
  at_this_level(words, [&](auto level) { level.run(job, small ? serial : executor); });
}

}  // namespace

template <class T>
PrepackedLayer::PrepackedLayer(const LayerWeights<T>& from, LayerFormat format, Executor& executor)
    : columns_(from.columns), depth_(from.depth), format_(from.depth <= kMostInt8Depth ? format : LayerFormat::kExact) {
  at_this_level(words_of<T>(format_), [&](auto level) {
    const PackedSize size = level.size(from, format_);
    steps_ = size.steps;
    panels_ = aligned<float>(size.padded_columns * steps_);
    bias_ = aligned<float>(size.padded_columns);
    if (format_ == LayerFormat::kInt8) scales_ = aligned<float>(size.padded_columns);
    executor.run(size.panels, [&](int64_t panel, int) { level.fill(from, panel, *this); });
  });
}
template PrepackedLayer::PrepackedLayer(const LayerWeights<float>& from, LayerFormat format, Executor& executor);
template PrepackedLayer::PrepackedLayer(const LayerWeights<uint16_t>& from, LayerFormat format, Executor& executor);

void multiply(const LayerRows<float>& job, Executor& executor) { run(job, executor); }
void multiply(const LayerRows<uint16_t>& job, Executor& executor) { run(job, executor); }

int64_t next_words(const NextWords& job, Executor& executor) {
  const Words words = words_of<float>(job.output->format());
  return at_this_level(words, [&](auto level) { return level.run(job, executor); });
}

}  // namespace fovea::kernels
