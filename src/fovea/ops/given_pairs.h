#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "fovea/ops/attention_core.h"

// Pairs that come with the call: AttentionOptions::pairs, in the kernels kernels::GivenPairs and kernels::GivenLists.
namespace fovea::ops {

// The arguments of fovea::attention that give lists. Throws an Error if both lists are given, or block_size without
// block_indices.
struct NamedLists {
  std::optional<at::Tensor> indices = {}, block_indices = {};
  int64_t block_size = kernels::kUsualBlock;
};
PairLists pair_lists(const NamedLists& named);

// The lists as code without torch reads them; valid as long as `pairs`.
kernels::ListViews views_of(const PairLists& pairs);

// The lists as kernels read them: int32 on the CPU, [T_q, 1, H_kv or H, count], with room behind. Throws an Error that
// names the entry which is none of its sequence's keys, lies behind its query under a causal limit, or comes twice.
at::Tensor given_lists(const at::Tensor& given, const kernels::AttentionProblem& problem, bool packed);
kernels::GivenLists lists_of(const at::Tensor& lists);

}  // namespace fovea::ops
