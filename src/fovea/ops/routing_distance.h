#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "fovea/kernels/routing/members.h"

namespace fovea::ops {

// The tokens that count, and the nearest cluster of each token, [H, T].
struct NearestOfTokens {
  std::vector<int32_t> nearest;
  std::vector<kernels::TokenRange> ranges;
};

// Sums over the counted tokens of x [T, H, D] by head and nearest cluster, and the mean of (x - centroid)^2 over all
// their numbers: centroids [H, c, D]. On the CPU in double, the same bits on any number of threads.
struct ClusterMeasures {
  at::Tensor counts, sums;  // [H, c], [H, c, D]
  double mean_square = 0;
};
ClusterMeasures measure_clusters(const at::Tensor& x, const at::Tensor& centroids, const NearestOfTokens& tokens);
// The factor that makes (x - centroid) the gradient of that mean, times `grad`.
double distance_factor(const at::Tensor& x, const NearestOfTokens& tokens, double grad);

// The mean of (x - centroid)^2 over the tokens of all ranges: x [T, H, D], centroids [H, c, D] as constants -> [], in
// float32, or float64 where x is. Differentiable once in x. The same bits on any number of threads.
at::Tensor distance_to_centroids(const at::Tensor& x, const at::Tensor& centroids, NearestOfTokens tokens);

}  // namespace fovea::ops
