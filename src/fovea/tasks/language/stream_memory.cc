#include "fovea/tasks/language/stream_memory.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/memory.h"

namespace fovea::language {
namespace {

// A tensor of the checkpoint, float32 or float64, with this number of dimensions.
const at::Tensor& carried_tensor(const nn::NamedTensors& tensors, const std::string& name, int64_t dimensions,
                                 const std::string& origin) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dim() != dimensions)
    throw Error(cat(origin, ": the memory of its streams is damaged: ", name, " is missing or has another shape; ",
                    "start a new run with --pretrained-model"));
  return found->second;
}

}  // namespace

void StreamMemory::clear() {
  std::ranges::fill(carried_, nn::Memory{});
  pending_.clear();
}

std::shared_ptr<nn::MemoryPass> StreamMemory::begin(int64_t shard, const data::Segments& segments) const {
  const nn::Memory& carried = carried_.at(static_cast<size_t>(shard));
  std::vector<int64_t> streams;
  for (size_t i = 0; i < segments.streams.size(); ++i) {
    const bool begins = segments.fresh[i] != 0 || segments.streams[i] >= std::ssize(carried.lengths);
    streams.push_back(begins ? -1 : segments.streams[i]);
  }
  return std::make_shared<nn::MemoryPass>(carried.of(streams), limit_);
}

void StreamMemory::end(int64_t shard, const data::Segments& segments, nn::MemoryPass& pass) {
  // A stream continues its last sequence.
  std::vector<int64_t> last(segments.streams.empty() ? 0 : static_cast<size_t>(segments.streams.back()) + 1, -1);
  for (size_t i = 0; i < segments.streams.size(); ++i)
    last[static_cast<size_t>(segments.streams[i])] = static_cast<int64_t>(i);
  pending_.emplace_back(static_cast<size_t>(shard), pass.take().of(last));
}

void StreamMemory::after_update(bool made) {
  if (!made) return clear();
  for (auto& [shard, memory] : pending_) carried_[shard] = std::move(memory);
  pending_.clear();
}

nn::NamedTensors StreamMemory::tensors() const {
  nn::NamedTensors tensors;
  for (size_t shard = 0; shard < carried_.size(); ++shard) {
    const nn::Memory& memory = carried_[shard];
    if (memory.inputs.empty()) continue;
    const std::vector<double> lengths(memory.lengths.begin(), memory.lengths.end());
    tensors[cat(shard, "/lengths")] = at::tensor(lengths, at::kDouble);
    for (size_t layer = 0; layer < memory.inputs.size(); ++layer)
      tensors[cat(shard, "/", layer)] = memory.inputs[layer].to(at::kFloat).cpu();
  }
  return tensors;
}

void StreamMemory::restore(const nn::NamedTensors& tensors, const Expected& expected, const std::string& origin) {
  clear();
  for (size_t shard = 0; shard < carried_.size(); ++shard) {
    if (!tensors.contains(cat(shard, "/lengths"))) continue;
    const at::Tensor lengths = carried_tensor(tensors, cat(shard, "/lengths"), 1, origin).to(at::kLong);
    nn::Memory memory;
    memory.lengths.assign(lengths.const_data_ptr<int64_t>(), lengths.const_data_ptr<int64_t>() + lengths.numel());
    int64_t units = 0;
    bool fits = true;
    for (const int64_t length : memory.lengths) {
      fits = fits && length >= 0 && length <= limit_;
      if (fits) units += length;
    }
    for (int64_t layer = 0; layer < expected.layers; ++layer) {
      const at::Tensor& inputs = carried_tensor(tensors, cat(shard, "/", layer), 2, origin);
      fits = fits && inputs.size(0) == units && inputs.size(1) == expected.width;
      memory.inputs.push_back(inputs.to(expected.options));
    }
    if (!fits)
      throw Error(cat(origin, ": the memory of its streams does not have the units of --memory-length ", limit_,
                      "; start a new run with --pretrained-model"));
    carried_[shard] = std::move(memory);
  }
}

}  // namespace fovea::language
