#include "fovea/nn/memory.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "fovea/nn/index_tensor.h"
#include "fovea/nn/positions.h"

namespace fovea::nn {
namespace {

std::vector<int64_t> begins_of(std::span<const int64_t> lengths) {
  std::vector<int64_t> begins(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), begins.begin() + 1);
  return begins;
}

}  // namespace

Memory Memory::of(std::span<const int64_t> streams) const {
  Memory result;
  for (const int64_t stream : streams)
    result.lengths.push_back(stream < 0 ? 0 : lengths.at(static_cast<size_t>(stream)));
  const std::vector<int64_t> begins = begins_of(lengths);
  for (const at::Tensor& layer : inputs) {
    std::vector<at::Tensor> parts = {layer.narrow(0, 0, 0)};
    for (const int64_t stream : streams) {
      if (stream < 0) continue;
      const auto s = static_cast<size_t>(stream);
      parts.push_back(layer.narrow(0, begins[s], lengths[s]));
    }
    result.inputs.push_back(at::cat(parts));
  }
  return result;
}

MemoryPass::MemoryPass(Memory before, int64_t limit) : before_(std::move(before)), limit_(limit) {
  TORCH_CHECK(std::ranges::all_of(before_.lengths, [&](int64_t length) { return length <= limit; }),
              "memory is longer than its limit");
}

void MemoryPass::begin(const at::Tensor& offsets, size_t layers) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  offsets_.assign(bounds, bounds + offsets.numel());
  const size_t streams = offsets_.size() - 1;
  TORCH_CHECK(before_.lengths.size() == streams && (before_.inputs.empty() || before_.inputs.size() == layers),
              "the memory is not of these streams and layers");
  std::vector<int64_t> keys(streams);
  after_ = Memory::none(streams);
  after_.inputs.resize(layers);
  for (size_t b = 0; b < streams; ++b) {
    keys[b] = before_.lengths[b] + offsets_[b + 1] - offsets_[b];
    after_.lengths[b] = std::min(keys[b], limit_);
  }
  key_offsets_ = index_tensor(begins_of(keys));
  key_positions_ = token_positions(key_offsets_).position;
  positions_ = token_positions(offsets, before_.lengths).position;
}

at::Tensor MemoryPass::join(size_t layer, const at::Tensor& x) {
  at::Tensor joined = x;
  if (!before_.inputs.empty()) {
    const std::vector<int64_t> begins = begins_of(before_.lengths);
    std::vector<at::Tensor> parts;
    for (size_t b = 0; b + 1 < offsets_.size(); ++b) {
      parts.push_back(before_.inputs[layer].narrow(0, begins[b], before_.lengths[b]));
      parts.push_back(x.narrow(0, offsets_[b], offsets_[b + 1] - offsets_[b]));
    }
    joined = at::cat(parts);
  }
  if (!taken_) remember(layer, joined.detach());
  return joined;
}

void MemoryPass::remember(size_t layer, const at::Tensor& joined) {
  const auto* ends = key_offsets_.const_data_ptr<int64_t>() + 1;
  std::vector<at::Tensor> parts;
  for (size_t b = 0; b < after_.lengths.size(); ++b)
    parts.push_back(joined.narrow(0, ends[b] - after_.lengths[b], after_.lengths[b]));
  after_.inputs[layer] = at::cat(parts);
}

Memory MemoryPass::take() {
  taken_ = true;
  return std::move(after_);
}

}  // namespace fovea::nn
