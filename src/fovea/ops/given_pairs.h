#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/attention.h"
#include "fovea/ops/attention_core.h"

// Pairs that come with the call: AttentionOptions::indices and block_indices, in the operators one tensor of lists and
// the number of keys that an entry stands for (kernels::GivenPairs::block).
namespace fovea::ops {

// The pairs that the options give, as arguments of a call on q and k; the tensor is undefined if they give none. Throws
// an Error if both are given, or shapes, types or devices do not fit; values are not read.
struct GivenArgument {
  std::optional<at::Tensor>
      lists;  // [B, N_q, count] or [B, H_kv, N_q, count]; packed [T_q, count] or [T_q, H_kv, count]
  int64_t block = 0;
};
GivenArgument given_argument(const CoreTensors& x, const AttentionOptions& options);

// The lists' sizes, for problems: of a call whose k has `key_heads` heads. Throws an Error as above.
kernels::GivenPairs given_pairs(const CoreTensors& x, const CoreArguments& arguments);

// The lists as kernels read them: int32 on the CPU, [T_q, 1 or H_kv, count], with room behind. Throws an Error that
// names the entry which is none of its sequence's keys, lies behind its query under a causal limit, or comes twice.
at::Tensor given_lists(const at::Tensor& given, const kernels::AttentionProblem& problem, bool packed);
kernels::GivenLists lists_of(const at::Tensor& lists);

// True for the pairs that no list names, [G, 1 or H, N_q, N_k] on the CPU, of sequences padded to N_q and N_k.
struct PaddedSequences {
  const std::vector<kernels::Sequence>& members;
  int64_t queries = 0, keys = 0;
};
at::Tensor unlisted_pairs(const at::Tensor& lists, const kernels::AttentionProblem& problem,
                          const PaddedSequences& sequences);

}  // namespace fovea::ops
