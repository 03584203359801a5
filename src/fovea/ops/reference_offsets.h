#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/ops/reference_plan.h"
#include "fovea/ops/token_call.h"

// Terms by offset in the reference: gathered for each pair, of operators that autograd can follow.
namespace fovea::ops {

// The terms' sum for the scores of a group before keys are selected, [G, H, N_q, N_k] in `type`. Undefined: no terms.
at::Tensor offset_scores(const TokenCall& call, const ReferenceGroup& group, at::ScalarType type);
// The terms' sum for selected scores, broadcasting to them: the ramp of an adaptive span. Undefined: no ramp.
at::Tensor ramp_scores(const TokenCall& call, const ReferenceGroup& group, at::ScalarType type);
// The pairs that by_head leaves out, where it is minus infinity: bool, broadcasts to the scores. Undefined: none, or
// the spec has no adaptive span, whose masks do that.
at::Tensor pairs_left_out(const TokenCall& call, const ReferenceGroup& group);
// In double: how far rounding moves offset_scores(), broadcasting to the scores. Undefined where these are.
at::Tensor offset_slack(const TokenCall& call, const ReferenceGroup& group);

// Weights [G, H, N_q, N_k] summed by the offsets that the problem asks for, [G, H, N_q, count].
at::Tensor sums_by_offset(const at::Tensor& weights, const ReferenceGroup& group,
                          const kernels::AttentionProblem& problem);
// The inverse of sums_by_offset(): for each pair its element of [G, H, N_q, count]; returns [G, H, N_q, N_k].
at::Tensor at_offsets(const at::Tensor& by_offset, const ReferenceGroup& group,
                      const kernels::AttentionProblem& problem);

// Gradients of the terms that are wanted, summed over groups.
class OffsetGradientSums {
 public:
  OffsetGradientSums(const TokenCall& call, const WantedTerms& wanted);
  // grad: of the group's scores, [G, H, N_q, N_k].
  void add(const ReferenceGroup& group, const at::Tensor& grad);
  TermTensors result() const;  // in the types of the terms

 private:
  const TokenCall& call_;
  TermTensors sums_;
};

}  // namespace fovea::ops
