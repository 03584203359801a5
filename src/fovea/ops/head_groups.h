#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "fovea/ops/attention_core.h"
#include "fovea/ops/routing.h"
#include "fovea/spec/resolved_layer.h"

// Splits the inputs of a layer into those of its head groups.
namespace fovea::ops {

// Tells how many heads of q share one head of k and v. Throws an Error if the number of k's does not divide that of
// q's.
kernels::KeySharing key_sharing(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

// A layer's call that passed the checks. q, k and v have one width, and the options have a scale.
struct LayerCall {
  CoreTensors x;
  const AttentionOptions& options;
  kernels::KeySharing keys;
  const AttentionLayer& layer;
};

// Gives the groups one after the other, each once.
class HeadGroups {
 public:
  explicit HeadGroups(const LayerCall& call);

  struct Inputs {
    CoreTensors x;
    GroupCall call;
    bool is_routed;
  };
  bool done() const { return next_ == call_.layer.groups.size(); }
  // Throws an Error if a group learns alpha and none was given.
  Inputs next();
  // If the group that next() gave last is routed: its output if the caller has computed it, and its other inputs.
  // routed() throws an Error if the group's centroids were not given.
  std::optional<at::Tensor> ready_output();
  RoutedGroup routed();

 private:
  at::Tensor key_heads(const at::Tensor& x, int64_t count) const;
  at::Tensor own_keys(const at::Tensor& x, const std::vector<at::Tensor>& parts, int64_t count) const;
  std::optional<at::Tensor> alpha_of(const AttentionLayer::Group& group) const;
  OffsetTerms terms_of(const AttentionLayer::Group& group) const;
  PairLists pairs_of(const AttentionLayer::Group& group) const;

  const LayerCall& call_;
  const RoutingInputs& routing_;
  // The heads of each group. keys_ and values_ are empty if next() cuts them one group at a time.
  std::vector<at::Tensor> queries_, keys_, values_;
  size_t next_ = 0, next_output_ = 0;
  int64_t first_head_ = 0;
  int64_t centroid_heads_ = 0, next_centroid_ = 0;  // heads that have centroids
};

}  // namespace fovea::ops
