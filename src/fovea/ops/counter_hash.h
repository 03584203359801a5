#pragma once
#include <ATen/core/Tensor.h>

// The hashes of base/rng.h on int64 tensors of any device, bit for bit.
namespace fovea::ops {

// hash_combine(seed, value), which broadcast. All 64 bits count.
at::Tensor hash_combine_of(const at::Tensor& seed, const at::Tensor& value);

// hash32(key, counter), which broadcast; in and out below 2^32.
at::Tensor hash32_of(const at::Tensor& key, const at::Tensor& counter);

}  // namespace fovea::ops
