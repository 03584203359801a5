#include <ATen/TensorOperators.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>

#include "fovea/ops/head_norm.h"

namespace fovea::ops {

at::Tensor composed_head_norm(const HeadNormInputs& in, double eps) {
  const at::ScalarType type = in.z.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor z = in.z.to(type), centred = in.centred ? z - z.mean({-1}, true) : z;
  at::Tensor y = centred * (centred.square().mean({-1}, true) + eps).rsqrt() * in.gain.to(type);
  if (in.bias) y = y + in.bias->to(type);
  if (in.gate) y = y * (z * in.gate->to(type)).sigmoid();  // the gate sees z as it was before the norm
  return y.to(in.z.scalar_type());
}

}  // namespace fovea::ops
