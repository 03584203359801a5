#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/spec/attention_spec.h"

namespace fovea::ops {

// Scores of a padded group and what is known of its pairs. G sequences, H heads, N_q queries, N_k keys.
struct ScoreMatrix {
  at::Tensor scores;   // [G, H, N_q, N_k], float or double
  at::Tensor dropped;  // bool, broadcasts to scores, true: not selected; undefined: all are
  at::Tensor alpha;    // [H], double, if the transform learns it
};

// Weights of every row, zero where dropped; a row without a selected pair is all zeros, NaN stays.
at::Tensor transform_forward(const Transform& transform, const ScoreMatrix& rows);

struct TransformGradient {
  at::Tensor scores;  // [G, H, N_q, N_k]
  at::Tensor alpha;   // [H] double, if the transform learns it
};
// `weights` as transform_forward gave them, before dropout.
TransformGradient transform_backward(const Transform& transform, const ScoreMatrix& rows, const at::Tensor& weights,
                                     const at::Tensor& grad_weights);

}  // namespace fovea::ops
