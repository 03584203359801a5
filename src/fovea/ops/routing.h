#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "fovea/kernels/routing/members.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/routing_rows.h"
#include "fovea/spec/attention_spec.h"

// Routed attention (spec/attention_spec.h) of one head group: H heads of D, c clusters. Queries and keys are normalised
// to the norm sqrt(D), clusters take their members, and the kernels compute attention within each of them.
namespace fovea::ops {

// The use of a query's own key, if keys are queries. kLast: it counts only if there is no other key.
enum class SelfKey : uint8_t { kKeep, kLast, kNever };

// The results of one side, the queries or keys of their own, for the centroids and the loss.
struct RoutedSide {
  at::Tensor counts;    // [H, c]: tokens nearest to each centroid
  at::Tensor sums;      // [H, c, D]: the sum of their normalised vectors
  at::Tensor distance;  // [], differentiable: the mean of (x - centroid)^2 over all numbers of all tokens
};
struct RoutedReport {
  int64_t first_head = 0;                        // of the group among the heads that have centroids
  std::vector<RoutedSide> sides;                 // none of routed(c,w,random)
  double rows = 0, in_none = 0, in_several = 0;  // queries times heads; of them in no cluster, in more than one
};

// The weights of a routed head group as lists. Row token * H + head has the entries starts[row] ... starts[row + 1] -
// 1, none of weight 0. A key that shares several clusters with the query has an entry for each.
struct RoutedRows {
  int64_t first_head = 0, heads = 0;  // of the layer
  int64_t num_clusters = 0;           // of a head, C
  kernels::MemberLists queries;       // the rows in cluster c of head h in sequence b are its list (h * B + b) * C + c
  std::vector<int64_t> starts;        // [T_q * H + 1]
  std::vector<int32_t> keys;          // positions in the sequence of the query
  std::vector<double> weights;        // averaged over the query's clusters as the outputs are
  std::vector<int32_t> clusters;      // [T_q * H]: how many clusters the query is in
  std::vector<int64_t> lists, members;  // [H]: clusters that have members, in all sequences, and their members together
};

// The inputs of routed mechanisms besides q, k and v.
struct RoutingInputs {
  // [R, C, D] of the layer's R heads that have centroids, in their order. A group reads its first c clusters.
  at::Tensor centroids;
  std::string keys = "auto";  // --routing-keys
  SelfKey self = SelfKey::kKeep;
  bool scaled = false;                           // scores times 1 / sqrt(D)
  std::vector<RoutedReport>* reports = nullptr;  // gets one for each routed group
  std::vector<at::Tensor> outputs = {};          // of each routed group, where the caller has computed them [T, H, D]
  std::vector<RoutedRows>* rows = nullptr;       // routed_attention() gives it the weights of each routed group
  // The rows of the layer's groups from an earlier routed_attention(), which routed_weights() reads instead of q and k
  // if given. Token t of q is token known_begin + t of that call.
  const std::vector<RoutedRows>* known = nullptr;
  int64_t known_begin = 0;
  // With memory of earlier tokens, for routed(c,w,causal) whose keys are the queries: [T_k, R, D], the queries of all
  // tokens of the keys in the R heads above. The queries of a sequence are its last tokens; the others are members of
  // clusters as keys alone, and count neither for the reports nor for the centroids. Packed tensors; undefined: every
  // key is a query.
  at::Tensor memory_queries = {};
};

struct RoutedGroup {
  const AttentionSpec& spec;  // with a route
  const RoutingInputs& inputs;
  at::Tensor centroids;  // [H, c, D]; undefined without
  int64_t first_head = 0;
};

// Like attend(), with the spec of `group`; `arguments` tell of neither spec nor scale. Throws an Error for keys
// in caches, and if keys are queries but not as many, unless the inputs have those of memory.
at::Tensor routed_attention(const CoreTensors& x, const LayerCall& arguments, const RoutedGroup& group);
// Like layer_weights(): the weight of each key for each query, averaged over its clusters like the outputs.
at::Tensor routed_weights(const CoreTensors& x, const LayerCall& arguments, const RoutedGroup& group);

// The parts of it, for steps over caches.
// x [T, H, D] normalised: mean 0 and variance 1 over D.
at::Tensor routing_vectors(const at::Tensor& x);
// The products of the vectors with the centroids, [H, T, c] on the CPU, float32, or float64 if x is.
at::Tensor cluster_scores(const at::Tensor& vectors, const at::Tensor& centroids);
// The members that `route` gives the clusters; `streams` as member_streams() gives them. `nearest`, unless null, gets
// the nearest cluster of each token, [H, T], where there are centroids.
kernels::MemberLists members_of(const at::Tensor& vectors, std::span<const kernels::TokenRange> ranges,
                                const RoutedGroup& group, const std::vector<uint64_t>& streams,
                                std::vector<int32_t>* nearest = nullptr);
// The scale by which outputs of several clusters become one; each token of routed(c,w,causal) is in one cluster.
RowScale row_scale_of(const Routed& route);
// The mechanism within a cluster, without a route and a norm. Where limits_own_keys(), it is that of cross-attention
// over the keys that a query sees.
AttentionSpec spec_within_cluster(const AttentionSpec& spec, AttentionKind kind, const RoutingInputs& inputs);
// The streams from which random members of each head are drawn; keys of their own are drawn apart from queries.
std::vector<uint64_t> member_streams(const LayerCall& arguments, int64_t heads, bool own_keys);
double scale_within_cluster(const RoutingInputs& inputs, int64_t head_dim);

}  // namespace fovea::ops
