#include "fovea/nn/decoder_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace fovea::nn {

int64_t KeyValueCache::extend(int64_t count) {
  constexpr int64_t kFirstSteps = 16;
  const int64_t room = buffer_.defined() ? buffer_.size(1) : 0, first = used_;
  used_ += count;
  if (used_ <= room) return first;
  const int64_t tokens = std::max({kFirstSteps * count, used_, 2 * room});
  at::Tensor grown = at::empty({layers_, tokens, 2, heads_, head_dim_}, options_);
  if (first > 0) grown.narrow(1, 0, first).copy_(buffer_.narrow(1, 0, first));
  buffer_ = grown;
  return first;
}

void KeyValueCache::write(size_t layer, int64_t first, const at::Tensor& stacked) {
  buffer_.select(0, static_cast<int64_t>(layer)).narrow(0, first, stacked.size(0)).copy_(stacked.narrow(1, 1, 2));
}

at::Tensor KeyValueCache::half(size_t layer, int64_t which) const {
  return buffer_.select(0, static_cast<int64_t>(layer)).narrow(0, 0, used_).select(1, which);
}

void Prefixes::append(int64_t first) {
  const auto length = static_cast<size_t>(length_);
  std::vector<int64_t> longer(rows_ * (length + 1));
  for (size_t r = 0; r < rows_; ++r) {
    int64_t* row = longer.data() + r * (length + 1);
    std::copy_n(tokens_.data() + r * length, length, row);
    row[length] = first + static_cast<int64_t>(r);
  }
  tokens_.swap(longer);
  ++length_;
}

void Prefixes::inherit(const std::vector<int64_t>& parents) {
  const auto length = static_cast<size_t>(length_);
  std::vector<int64_t> next(parents.size() * length);
  for (size_t r = 0; r < parents.size(); ++r) {
    std::copy_n(tokens_.data() + static_cast<size_t>(parents[r]) * length, length, next.data() + r * length);
  }
  tokens_.swap(next);
  rows_ = parents.size();
}

}  // namespace fovea::nn
