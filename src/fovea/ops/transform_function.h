#pragma once
#include "fovea/ops/reference_transform.h"

namespace fovea::ops {

// transform_forward as autograd knows it: any number of times differentiable in scores and alpha, by the formula of
// transform_backward.
at::Tensor differentiable_transform(const Transform& transform, const ScoreMatrix& rows);

}  // namespace fovea::ops
