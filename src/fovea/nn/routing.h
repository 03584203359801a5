#pragma once
#include <torch/nn/module.h>

#include <vector>

#include "fovea/nn/init.h"
#include "fovea/nn/pass_extras.h"
#include "fovea/ops/routing.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/stack_config.h"

// The clusters of an attention's routed heads (spec/routed.h): centroids learned by online k-means. R heads that have
// centroids, C clusters, at most, of a head, D.
namespace fovea::nn {

// The clusters of each head that has centroids; empty: none has.
std::vector<int64_t> clusters_of_heads(const LayerSpec& mechanism);
bool has_routes(const LayerSpec& mechanism);

// The inputs of a routed mechanism that come from a model's configuration.
ops::RoutingInputs routing_inputs(const RoutingConfig& config);

// Buffers, float32: centroids [R, C, D]; counts [R, C] and means [R, C, D], their moving averages of tokens and of sums
// of tokens. Rows of clusters that a head does not have are not read.
class Routing : public torch::nn::Module {
 public:
  // `mechanism` has centroids.
  Routing(const LayerSpec& mechanism, int64_t head_dim, const RoutingConfig& config, const InitScope& scope);

  const std::vector<int64_t>& clusters() const { return clusters_; }
  at::Tensor centroids() const;  // float32 at least

  // One step of the moving averages for the heads from `first_head` on: counts [H, c] and sums [H, c, D] of the tokens
  // of an update, and centroids = means / smoothed counts.
  void update(int64_t first_head, const at::Tensor& counts, const at::Tensor& sums);

 private:
  std::vector<int64_t> clusters_;
  double decay_;
  at::Tensor centroids_, counts_, means_;
};

// Figures of a pass for the log: of each name the mean over attentions. In training also the commitment loss and the
// sums for `routing`, which is null if none of the heads has centroids.
void add_routing(const std::vector<ops::RoutedReport>& reports, const std::shared_ptr<Routing>& routing,
                 const RoutingConfig& config, bool training, PassExtras& extras);

}  // namespace fovea::nn
