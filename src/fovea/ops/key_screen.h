#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "fovea/kernels/attention/attention.h"
#include "fovea/ops/attention_call.h"

// The 8-bit copy of a cache's keys that steps with topk(k) read (kernels/attention/cpu/key_screen.h). It costs head_dim
// bytes, rounded up to 32, and 4 more for each key and head.
namespace fovea::ops {

// Whether steps of a mechanism read such a copy: topk(k) over all keys, then softmax or a function of single scores.
bool reads_key_screen(const AttentionSpec& spec);

// Room for `tokens` keys of num_heads heads. No key is in it yet; the extents are zero.
KeyScreen empty_key_screen(int64_t tokens, int64_t num_heads, int64_t head_dim);

// Copies keys [T, H_kv, D], float32 or bfloat16 on the CPU, to the rows places[0], places[1], ... of the screen, [T]
// int64, or to `first`, first + 1, ... without places. centre [H_kv, D] float32 is near to most keys; all keys of a
// sequence must be packed with the same. Throws an Error if the tensors do not fit.
void pack_key_screen(const at::Tensor& keys, const KeyScreen& screen, const at::Tensor& centre,
                     const std::optional<at::Tensor>& places, int64_t first);

// The mean of keys [T, H_kv, D] as a centre; zeros if they are few or not finite.
at::Tensor key_screen_centre(const at::Tensor& keys);

// The call's screen; an Error if it does not fit k.
KeyScreen checked_screen(const at::Tensor& k, const AttentionOptions& options);
kernels::KeyScreen kernel_screen(const KeyScreen& screen);

}  // namespace fovea::ops
