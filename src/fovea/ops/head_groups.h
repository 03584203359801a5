#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "fovea/ops/attention_core.h"
#include "fovea/ops/routing.h"

// Parts of a layer's call.
namespace fovea::ops {

// Tells how many heads of q share one head of k and v. Throws an Error if the number of k's does not divide that of
// q's.
kernels::KeySharing key_sharing(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

struct CallPart {
  CoreTensors x;
  LayerCall call;
};
// Head groups that follow one another among those of a call.
struct GroupRange {
  size_t first = 0, count = 1;
};
// The call of these groups alone: views of the call's tensors.
CallPart part_of(const CoreTensors& x, const LayerCall& call, const GroupRange& groups);

// The part of a single group that is routed. Routed heads gather rows head by head, so they get a head of k and v for
// each head of q. Throws an Error if the call has lists of pairs or ranges of keys.
CallPart routed_part(const CoreTensors& x, const LayerCall& call, size_t group);
// The part of a single group that chooses blocks, as a call with their lists. Throws an Error if the call has lists.
CallPart chosen_part(const CoreTensors& x, const LayerCall& call, size_t group);
// The group's inputs of routing among those of the layer. Throws an Error if its centroids were not given.
RoutedGroup routed_group(const LayerCall& call, size_t group);
// The group's output if the caller has computed it.
std::optional<at::Tensor> ready_output(const LayerCall& call, size_t group);

}  // namespace fovea::ops
