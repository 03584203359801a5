#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "fovea/kernels/attention/attention.h"
#include "fovea/ops/attention_call.h"

// One mechanism on some heads, as the operators fovea::attention_forward and fovea::attention_backward compute it: by a
// fast kernel if one accepts the problem, otherwise by the reference.
namespace fovea::ops {

using WantedTerms = std::array<bool, kTermTensors.size()>;  // of their gradients

struct CoreOutput {
  at::Tensor out;    // as q; dense: a [B, N_q, H, D] buffer seen as [B, H, N_q, D], so that heads concatenate for free
  at::Tensor stats;  // [T_q, H, floats a row] float, what the kernels left for backward; empty without it
  at::Tensor kept;   // [T_q, H, ints a row] int32
  at::Tensor sums;  // weights by offset: the layout of q, sum_count wide, of by_query's type; [0] if none are asked for
};

struct CoreGradients {
  at::Tensor q, k, v, alpha;  // as the inputs; alpha [0] when there is none
  TermTensors terms;          // [0] where there is none or it is not wanted
};

struct CoreTensors {
  at::Tensor q, k, v;
};

// The inputs of backward: gradients of out and sums; the gradients of sums may be undefined.
struct CoreCotangents {
  at::Tensor out, sums;
};

enum class Phase : uint8_t { kInference, kTraining };

CoreOutput core_forward(const CoreTensors& x, const GroupCall& inputs, Phase phase);
CoreGradients core_backward(const CoreCotangents& cotangents, const CoreTensors& x, const CoreOutput& saved,
                            const GroupCall& inputs, const WantedTerms& wanted);
at::Tensor core_weights(const CoreTensors& x, const GroupCall& inputs);

// core_forward's out and sums through the dispatcher, so with Autograd: differentiable in q, k, v, alpha and the terms.
struct CalledOutput {
  at::Tensor out, sums;
};
CalledOutput call_forward(const CoreTensors& x, const GroupCall& inputs);

// Sizes alone, for Meta and for torch.compile: no data is read.
CoreOutput meta_forward(const CoreTensors& x, const GroupCall& inputs, Phase phase);
CoreGradients meta_backward(const CoreTensors& x, const GroupCall& inputs, const WantedTerms& wanted);

}  // namespace fovea::ops
