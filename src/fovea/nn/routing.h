#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "fovea/nn/forward_context.h"
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

// The inputs of a full pass from routed heads, and the figures that it leaves.
class RoutedPass {
 public:
  struct Of {
    const RoutingConfig& config;
    const std::shared_ptr<Routing>& routing;  // null if no head has centroids
    at::Tensor memory_queries;                // ops::RoutingInputs
  };
  // `observed`: the pass also leaves the weights as lists.
  RoutedPass(const Of& of, const ForwardContext& context, bool observed);
  RoutedPass(const RoutedPass&) = delete;
  RoutedPass& operator=(const RoutedPass&) = delete;

  const ops::RoutingInputs& inputs() const { return inputs_; }
  // The inputs for weights that are computed again: from the lists, because the clusters are known.
  const ops::RoutingInputs& known();
  const std::vector<ops::RoutedRows>& rows() const { return rows_; }
  // Figures of the pass for the log: of each name the mean over attentions. In training also the commitment loss and
  // the sums for the centroids.
  void report(const ForwardContext& context) const;

 private:
  Of of_;
  ops::RoutingInputs inputs_;
  std::vector<ops::RoutedReport> reports_;
  std::vector<ops::RoutedRows> rows_;
};

}  // namespace fovea::nn
