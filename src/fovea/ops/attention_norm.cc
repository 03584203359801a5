#include "fovea/ops/attention_norm.h"

#include <ATen/ops/ones.h>

#include "fovea/kernels/call/checks.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/head_norm.h"

namespace fovea::ops {
namespace {

HeadNormInputs inputs_of(const Norm& norm, const at::Tensor& z, const NormParameters& p) {
  HeadNormInputs in;
  in.z = z;
  in.gain = p.gain ? *p.gain : at::ones({z.size(-1)}, z.options());
  const NormParts parts = parts_of(norm);
  in.centred = parts.centred;
  if (parts.bias) in.bias = p.bias;
  if (parts.gate) in.gate = p.gate;
  return in;
}

// In one pass, where the kernels take the tensors.
at::Tensor normed(const HeadNormInputs& in) {
  // Under autocast parameters stay float32 while z is bfloat16.
  const auto like_z = [&](const std::optional<at::Tensor>& x) {
    return x ? std::optional(x->to(in.z.scalar_type())) : x;
  };
  const HeadNormInputs one_type{in.z, *like_z(in.gain), like_z(in.gate), like_z(in.bias), in.centred};
  return fits_head_norm(one_type) ? head_norm(one_type, kernels::kNormEps) : composed_head_norm(in, kernels::kNormEps);
}

}  // namespace

at::Tensor norm_over_heads(const Norm& norm, const at::Tensor& z, const NormParameters& parameters) {
  if (std::holds_alternative<NoNorm>(norm)) return z;
  const bool packed = z.dim() == 3;
  const at::Tensor rows = packed ? z : z.transpose(1, 2);  // [..., H, D]
  const at::Tensor flat = rows.flatten(-2);
  const kernels::LayerViews views{
      .gain = view_of(parameters.gain), .gate = view_of(parameters.gate), .bias = view_of(parameters.bias)};
  kernels::check_norm(norm, views, flat.size(-1));
  const at::Tensor y = normed(inputs_of(norm, flat, parameters)).view(rows.sizes());
  return packed ? y : y.transpose(1, 2);
}

}  // namespace fovea::ops
