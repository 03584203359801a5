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

// The mean of (x - centroid)^2 over the tokens of all ranges, of tensors for which has_row_loops() holds, and the
// factor that makes (x - centroid) its gradient, times `grad`. The same bits on any number of threads.
double mean_square_distance(const at::Tensor& x, const at::Tensor& centroids, const NearestOfTokens& tokens);
double distance_factor(const at::Tensor& x, const NearestOfTokens& tokens, double grad);

// The mean of (x - centroid)^2 over the tokens of all ranges: x [T, H, D], centroids [H, c, D] as constants -> [], in
// float32, or float64 where x is. Differentiable once in x. The same bits on any number of threads.
at::Tensor distance_to_centroids(const at::Tensor& x, const at::Tensor& centroids, NearestOfTokens tokens);

}  // namespace fovea::ops
