#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/routing/members.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/routing.h"
#include "fovea/ops/routing_rows.h"

// One call of routed attention as lists of the clusters' members: shared by its forward pass and its weights.
namespace fovea::ops {

// The queries or the keys of a batch, routed.
struct RoutedTokens {
  at::Tensor vectors;  // [T, H, D], normalised, with a graph
  std::vector<kernels::TokenRange> ranges;
  std::vector<int32_t> nearest;  // [H, T]; empty without centroids
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
  std::string spec;  // within a cluster
  double scale = 1;

  bool same_tokens() const { return queries == keys; }
};

// Throws an Error if routed_attention() refuses the call.
RoutedBatch routed_batch(const CoreTensors& x, const GroupCall& arguments, const RoutedGroup& group);

// Rows of q, k and v in the order of members, [N, 1, D] of each side; v [T_k, H, D].
CoreTensors member_rows(const RoutedBatch& batch, const at::Tensor& v);
// If keys are queries: the rows of v of the queries' own tokens, [T_q, H, D].
at::Tensor own_values(const RoutedBatch& batch, const at::Tensor& v);

// Calls visit(part of the rows, arguments) for all lists, or head by head where each head has an alpha of its own.
using VisitCall = std::function<void(const CoreTensors& part, const GroupCall& call)>;
void for_each_call(const RoutedBatch& batch, const CoreTensors& rows, const GroupCall& given, const VisitCall& visit);

}  // namespace fovea::ops
