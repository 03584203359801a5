#include "fovea/kernels/step/packed.h"

#include "fovea/kernels/step/packed_isa.h"

namespace fovea::kernels {
namespace {

// Below this many multiplications waking another thread costs more than it brings.
constexpr int64_t kWorthThreads = 1 << 18;

template <class Work>
decltype(auto) at_this_level(Work&& work) {
  return with_isa([&](auto tag) { return work(PackedLayers<decltype(tag)::kIsa>{}); });
}

template <class T>
PackedSize size_of(const LayerWeights<T>& from) {
  return at_this_level([&](auto level) { return level.size(from); });
}

template <class T>
void run(const LayerRows<T>& job, Executor& executor) {
  if (job.rows == 0 || job.layer->columns() == 0) return;
  SerialExecutor serial;
  const bool small = job.rows * job.layer->columns() * job.layer->depth() < kWorthThreads;
  at_this_level([&](auto level) { level.run(job, small ? serial : executor); });
}

}  // namespace

template <class T>
void PackedLayer::fill(const LayerWeights<T>& from, Executor& executor) {
  at_this_level([&](auto level) {
    executor.run(level.size(from).panels, [&](int64_t panel, int) { level.fill(from, panel, *this); });
  });
}

PackedLayer::PackedLayer(const LayerWeights<float>& from, Executor& executor)
    : columns_(from.columns),
      depth_(from.depth),
      panels_(size_of(from).panels * size_of(from).panel_floats),
      bias_(size_of(from).padded_columns) {
  fill(from, executor);
}

PackedLayer::PackedLayer(const LayerWeights<uint16_t>& from, Executor& executor)
    : columns_(from.columns),
      depth_(from.depth),
      panels_(size_of(from).panels * size_of(from).panel_floats),
      bias_(size_of(from).padded_columns) {
  fill(from, executor);
}

void multiply(const LayerRows<float>& job, Executor& executor) { run(job, executor); }
void multiply(const LayerRows<uint16_t>& job, Executor& executor) { run(job, executor); }

int64_t next_words(const NextWords& job, Executor& executor) {
  return at_this_level([&](auto level) { return level.run(job, executor); });
}

}  // namespace fovea::kernels
