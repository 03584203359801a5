#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/attention_call.h"
#include "fovea/spec/attention_spec.h"

namespace fovea::ops {

// Returns the number of candidates of each query of packed q [T_q, H, D] under each head whose queries are scaled, 1
// under the others: [T_q, H] float32 on the CPU. `heads` have their numbers of heads; k and options are those of the
// call of attention.
at::Tensor candidate_counts(const LayerSpec& heads, const at::Tensor& q, const at::Tensor& k,
                            const AttentionOptions& options);

}  // namespace fovea::ops
