#include "fovea/ops/attention_norm.h"

#include <ATen/ops/ones.h>

#include <string_view>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/head_norm.h"

namespace fovea::ops {
namespace {

constexpr double kEps = 1e-8;  // inside the root

void check(const std::optional<at::Tensor>& parameter, std::string_view name, int64_t width) {
  if (!parameter) return;
  if (parameter->dim() != 1 || parameter->size(0) != width) {
    throw Error(
        cat("attention: ", name, " has shape ", shape(*parameter), "; expected [", width, "], heads times head size"));
  }
  if (!at::isFloatingType(parameter->scalar_type())) {
    throw Error(cat("attention: ", name, " is ", parameter->scalar_type(), "; expected a floating type"));
  }
}

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
  return fits_head_norm(one_type) ? head_norm(one_type, kEps) : composed_head_norm(in, kEps);
}

}  // namespace

at::Tensor norm_over_heads(const Norm& norm, const at::Tensor& z, const NormParameters& parameters) {
  if (std::holds_alternative<NoNorm>(norm)) return z;
  const bool packed = z.dim() == 3;
  const at::Tensor rows = packed ? z : z.transpose(1, 2);  // [..., H, D]
  const at::Tensor flat = rows.flatten(-2);
  for (const auto& [parameter, name] : {std::pair(&parameters.gain, "gain"), std::pair(&parameters.gate, "gate"),
                                        std::pair(&parameters.bias, "bias")}) {
    check(*parameter, name, flat.size(-1));
  }
  if (parts_of(norm).gate && !parameters.gate) {
    throw Error(cat("attention: ", name_of(norm), " needs gate of shape [heads times head size]"));
  }
  const at::Tensor y = normed(inputs_of(norm, flat, parameters)).view(rows.sizes());
  return packed ? y : y.transpose(1, 2);
}

}  // namespace fovea::ops
