#include "fovea/ops/attention_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>

#include <string_view>

#include "fovea/base/strings.h"
#include "fovea/ops/head_norm.h"

namespace fovea::ops {
namespace {

constexpr double kEps = 1e-8;  // inside the root

void check(const std::optional<at::Tensor>& parameter, std::string_view name, const c10::SymInt& width) {
  if (parameter && (parameter->dim() != 1 || parameter->sym_size(0) != width)) {
    throw Error(cat("attention: ", name, " must have shape [", width, "], heads times head size"));
  }
}

at::Tensor scaled(const at::Tensor& x, const std::optional<at::Tensor>& gain) {
  return gain ? x * gain->to(x.scalar_type()) : x;
}

at::Tensor rms(const at::Tensor& z, const NormParameters& p) {
  return scaled(z * (z.square().mean({-1}, true) + kEps).rsqrt(), p.gain);
}

at::Tensor apply(const NoNorm&, const at::Tensor& z, const NormParameters&) { return z; }
at::Tensor apply(const RmsNorm&, const at::Tensor& z, const NormParameters& p) { return rms(z, p); }
at::Tensor apply(const RmsNormXavier&, const at::Tensor& z, const NormParameters& p) { return rms(z, p); }
at::Tensor apply(const GatedRmsNorm&, const at::Tensor& z, const NormParameters& p) {
  return rms(z, p) * (z * p.gate->to(z.scalar_type())).sigmoid();  // the gate sees z as it was before the norm
}
at::Tensor apply(const LayerNorm&, const at::Tensor& z, const NormParameters& p) {
  const at::Tensor centred = z - z.mean({-1}, true);
  const at::Tensor y = scaled(centred * (centred.square().mean({-1}, true) + kEps).rsqrt(), p.gain);
  return p.bias ? y + p.bias->to(y.scalar_type()) : y;
}

// In one pass, where the kernels take the tensors.
std::optional<at::Tensor> fused(const Norm& norm, const at::Tensor& z, const NormParameters& p) {
  if (z.scalar_type() != at::kFloat && z.scalar_type() != at::kBFloat16) return std::nullopt;
  // Under autocast parameters stay float32 while z is bfloat16.
  const auto like_z = [&](const std::optional<at::Tensor>& x) { return x ? std::optional(x->to(z.scalar_type())) : x; };
  HeadNormInputs in;
  in.z = z;
  in.gain = p.gain ? *like_z(p.gain) : at::ones_symint({z.sym_size(-1)}, z.options());
  in.centred = std::holds_alternative<LayerNorm>(norm);
  if (in.centred) in.bias = like_z(p.bias);
  if (std::holds_alternative<GatedRmsNorm>(norm)) in.gate = like_z(p.gate);
  if (!fits_head_norm(in)) return std::nullopt;
  return call_head_norm(in, kEps);
}

at::Tensor composed(const Norm& norm, const at::Tensor& z, const NormParameters& p) {
  const at::Tensor wide = z.to(z.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return std::visit([&](const auto& n) { return apply(n, wide, p); }, norm).to(z.scalar_type());
}

}  // namespace

at::Tensor norm_over_heads(const Norm& norm, const at::Tensor& z, const NormParameters& parameters) {
  if (std::holds_alternative<NoNorm>(norm)) return z;
  const bool packed = z.dim() == 3;
  const at::Tensor rows = packed ? z : z.transpose(1, 2);  // [..., H, D]
  const at::Tensor flat = rows.flatten(-2);
  for (const auto& [parameter, name] : {std::pair(&parameters.gain, "gain"), std::pair(&parameters.gate, "gate"),
                                        std::pair(&parameters.bias, "bias")}) {
    check(*parameter, name, flat.sym_size(-1));
  }
  if (std::holds_alternative<GatedRmsNorm>(norm) && !parameters.gate) {
    throw Error("attention: gated-rmsnorm needs gate of shape [heads times head size]");
  }
  const std::optional<at::Tensor> one_pass = fused(norm, flat, parameters);
  const at::Tensor y = (one_pass ? *one_pass : composed(norm, flat, parameters)).view_symint(rows.sym_sizes());
  return packed ? y : y.transpose(1, 2);
}

}  // namespace fovea::ops
