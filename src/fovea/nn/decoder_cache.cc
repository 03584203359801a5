#include "fovea/nn/decoder_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "fovea/ops/executor.h"

namespace fovea::nn {

at::Tensor to_index(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

void KeyValueCache::reserve(int64_t slots, int64_t tokens, int64_t used) {
  const int64_t old_slots = buffer_.defined() ? buffer_.size(1) : 0;
  if (slots <= old_slots && tokens <= capacity()) return;
  const int64_t new_slots = std::max(slots, old_slots);
  const int64_t new_tokens = tokens <= capacity() ? capacity() : std::max<int64_t>({16, tokens, 2 * capacity()});
  at::Tensor grown = at::empty({layers_, new_slots, new_tokens, 2, heads_, head_dim_}, options_);
  if (used > 0) grown.narrow(1, 0, old_slots).narrow(2, 0, used).copy_(buffer_.narrow(2, 0, used));
  buffer_ = grown;
}

void KeyValueCache::append(size_t layer, int64_t token, const std::vector<int64_t>& slots, const at::Tensor& stacked) {
  const at::Tensor keys_values = stacked.narrow(1, 1, 2);
  at::Tensor place = buffer_.select(0, static_cast<int64_t>(layer)).select(1, token);  // [slots, 2, H, D]
  if (!buffer_.is_cpu()) {
    place.index_copy_(0, to_index(slots).to(buffer_.device()), keys_values);
    return;
  }
  const auto size = static_cast<size_t>(2 * heads_ * head_dim_) * buffer_.element_size();
  auto* to = static_cast<char*>(place.mutable_data_ptr());
  const auto* from = static_cast<const char*>(keys_values.const_data_ptr());
  const auto to_stride = static_cast<size_t>(place.stride(0)) * buffer_.element_size();
  const auto from_stride = static_cast<size_t>(keys_values.stride(0)) * buffer_.element_size();
  for (size_t r = 0; r < slots.size(); ++r) {
    std::memcpy(to + static_cast<size_t>(slots[r]) * to_stride, from + r * from_stride, size);
  }
}

void KeyValueCache::copy(const std::vector<int64_t>& from, const std::vector<int64_t>& to, int64_t used) {
  if (from.empty() || used == 0) return;
  if (!buffer_.is_cpu()) {
    at::Tensor tokens = buffer_.narrow(2, 0, used);
    tokens.index_copy_(1, to_index(to).to(buffer_.device()),
                       tokens.index_select(1, to_index(from).to(buffer_.device())));
    return;
  }
  const auto slot_bytes = static_cast<size_t>(buffer_.stride(1)) * buffer_.element_size();
  const auto used_bytes = static_cast<size_t>(used * buffer_.stride(2)) * buffer_.element_size();
  auto* data = static_cast<char*>(buffer_.mutable_data_ptr());
  const auto slots = static_cast<size_t>(buffer_.size(1));
  ops::torch_executor().run(layers_, [&](int64_t layer, int) {
    char* base = data + static_cast<size_t>(layer) * slots * slot_bytes;
    for (size_t i = 0; i < from.size(); ++i) {
      std::memcpy(base + static_cast<size_t>(to[i]) * slot_bytes, base + static_cast<size_t>(from[i]) * slot_bytes,
                  used_bytes);
    }
  });
}

at::Tensor KeyValueCache::half(size_t layer, int64_t which) const {
  return buffer_.select(0, static_cast<int64_t>(layer)).flatten(0, 1).select(1, which);
}

void Slots::assign(size_t rows) {
  count_ = static_cast<int64_t>(rows);
  of_rows_.resize(rows);
  for (size_t r = 0; r < rows; ++r) of_rows_[r] = static_cast<int64_t>(r);
}

Slots::Copies Slots::inherit(const std::vector<int64_t>& parents) {
  std::vector<int64_t> next(parents.size(), -1);
  std::vector<bool> taken(static_cast<size_t>(count_), false);
  for (size_t r = 0; r < parents.size(); ++r) {
    const int64_t slot = of_rows_.at(static_cast<size_t>(parents[r]));
    if (taken[static_cast<size_t>(slot)]) continue;
    taken[static_cast<size_t>(slot)] = true;
    next[r] = slot;
  }
  Copies copies;
  int64_t free = 0;
  for (size_t r = 0; r < parents.size(); ++r) {
    if (next[r] >= 0) continue;
    while (free < count_ && taken[static_cast<size_t>(free)]) ++free;
    next[r] = free++;
    count_ = std::max(count_, free);
    taken.resize(static_cast<size_t>(count_), true);
    copies.from.push_back(of_rows_[static_cast<size_t>(parents[r])]);
    copies.to.push_back(next[r]);
  }
  of_rows_ = std::move(next);
  return copies;
}

}  // namespace fovea::nn
