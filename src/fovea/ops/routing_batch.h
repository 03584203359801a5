#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/routing/members.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/routing.h"
#include "fovea/ops/routing_distance.h"
#include "fovea/ops/routing_rows.h"

// One call of routed attention as lists of the clusters' members: shared by its forward pass and its weights.
namespace fovea::ops {

// The queries or the keys of a batch, routed.
struct RoutedTokens {
  at::Tensor given;    // [T, H, D], with a graph; undefined where the vectors have it
  at::Tensor vectors;  // [T, H, D], normalised
  std::vector<kernels::TokenRange> ranges;
  std::vector<kernels::TokenRange> counted;  // without tokens of memory, which counted when they were queries
  std::vector<int32_t> nearest;              // [H, T]; empty without centroids
  kernels::MemberLists lists;
  MemberRowsPointer members;
  at::Tensor offsets;  // of the lists

  int64_t heads() const { return vectors.size(1); }
  int64_t tokens() const { return vectors.size(0); }
};

struct RoutedBatch {
  std::shared_ptr<const RoutedTokens> queries, keys;
  bool shared = false;  // keys are queries: of the same tokens, or with memory of more
  AttentionKind kind = AttentionKind::kSelf;
  std::vector<kernels::Sequence> sequences;
  AttentionSpec spec;            // within a cluster
  bool limits_own_keys = false;  // spec/attention_spec.h
  // If limits_own_keys: the keys that each member of the queries sees, by their places in the list of its cluster's
  // keys, [N, most] int32 on the CPU, -1 in places left over. Else undefined.
  at::Tensor seen;
  double scale = 1;

  bool same_tokens() const { return queries == keys; }
};

// The keys that a query sees among members of its cluster whose positions ascend: those up to itself, of routed(c,w,
// causal) the last w of them.
struct SeenKeys {
  int64_t begin = 0, end = 0;
  bool operator==(const SeenKeys&) const = default;
};
SeenKeys seen_keys(std::span<const int32_t> key_positions, int64_t query, const Routed& route);

// Throws an Error if routed_attention() refuses the call.
RoutedBatch routed_batch(const CoreTensors& x, const LayerCall& arguments, const RoutedGroup& group);

struct MeasuredSide {
  ClusterMeasures clusters;
  at::Tensor distance;  // RoutedSide::distance
};
struct MemberInputs {
  CoreTensors rows;                // of q, k and v in the order of members, [N, 1, D] of each side
  MeasuredSide queries, own_keys;  // the latter empty where keys are queries
};
// v [T_k, H, D]. Sides are measured if the centroids are defined.
MemberInputs member_inputs(const RoutedBatch& batch, const at::Tensor& v, const at::Tensor& centroids);
// If keys are queries: the rows of v of the queries' own tokens, [T_q, H, D].
at::Tensor own_values(const RoutedBatch& batch, const at::Tensor& v);

// Calls visit(part of the rows, arguments) for all lists, or head by head where each head has an alpha of its own.
using VisitCall = std::function<void(const CoreTensors& part, const LayerCall& call)>;
void for_each_call(const RoutedBatch& batch, const CoreTensors& rows, const LayerCall& given, const VisitCall& visit);

}  // namespace fovea::ops
