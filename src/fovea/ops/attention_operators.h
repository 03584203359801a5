#pragma once
#include <string_view>

#include "fovea/ops/attention_core.h"
#include "fovea/ops/attention_lists.h"

// The operators fovea::attention_forward and fovea::attention_backward as the dispatcher calls them.
namespace fovea::ops {

// A GroupCall in the form of the schemas.
struct OperatorInputs {
  OptionalTensor alpha;
  CallLists lists;
  std::string_view spec, kind;
  double scale, dropout;
  c10::SymInt dropout_seed;
};
GroupCall group_call(const OperatorInputs& inputs, const at::Tensor& q);

struct ForwardCall {
  CoreTensors x;
  OperatorInputs inputs;
  Phase phase;
};
struct BackwardCall {
  CoreCotangents cotangents;
  CoreTensors x;
  CoreOutput saved;
  OperatorInputs inputs;
  WantedTerms wanted;
};

// Calls the operator through the dispatcher.
CoreOutput call_operator(const CoreTensors& x, const OperatorInputs& inputs, Phase phase);
CoreGradients call_operator(const BackwardCall& call);

// The kernels for autograd's dispatch key: they record the call if an input requires a gradient.
CoreOutput attention_forward_autograd(const ForwardCall& call);
CoreGradients attention_backward_autograd(const BackwardCall& call);

}  // namespace fovea::ops
