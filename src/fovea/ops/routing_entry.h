#pragma once
#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include "fovea/ops/routing_distance.h"
#include "fovea/ops/routing_rows.h"

// The way of queries or keys into their clusters as one function of autograd: their norm, the rows of the members and
// the distance to the centroids. Its backward reads each gradient once.
namespace fovea::ops {

// The members and the distance that are asked for.
struct ClusterEntry : torch::CustomClassHolder {
  MemberRowsPointer members;
  at::Tensor centroids;    // [H, c, D]; undefined: no distance
  NearestOfTokens tokens;  // that count for the distance
  double distance = 0;     // of them
};
struct EnteredRows {
  at::Tensor q, k;      // [N, 1, D] in x's type: the same numbers in one memory, with a gradient each
  at::Tensor distance;  // as of distance_to_centroids(); undefined without centroids
};
// `vectors` are routing_vectors(x) without a graph; the results have the graph of x [T, H, D], for which
// has_row_loops() holds.
EnteredRows enter_clusters(const at::Tensor& x, const at::Tensor& vectors,
                           const c10::intrusive_ptr<ClusterEntry>& entry);

}  // namespace fovea::ops
